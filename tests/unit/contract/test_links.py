import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.errors import ControlError, ErrorCode
from engine.contract.links import MAX_LINK_CHARS, JoinLink, build_link, parse_link

ID = "0123456789abcdef" * 4


def test_a_good_link():
    link = parse_link(f"potluck://join?hub=https%3A%2F%2Fhub.example%3A8443%2Fteam&project={ID}")
    assert link == JoinLink(hub="https://hub.example:8443/team", project=ID)


def test_order_case_and_slashes_do_not_matter():
    link = parse_link(f"POTLUCK://join/?project={ID.upper()}&hub=HTTP://Hub.Example/")
    assert link == JoinLink(hub="http://hub.example", project=ID)


@pytest.mark.parametrize("hub", ["http://127.0.0.1:8080", "https://[::1]:9000/a/b", "http://hub.example"])
def test_built_links_parse_back(hub):
    assert parse_link(build_link(JoinLink(hub=hub, project=ID))) == JoinLink(hub=hub, project=ID)


@pytest.mark.parametrize(
    "link",
    [
        "",
        "potluck:",
        "potluck://",
        "potluck://join",
        "potluck://join?",
        f"http://join?hub=http://h&project={ID}",
        f"potluck://leave?hub=http://h&project={ID}",
        f"potluck://join/../x?hub=http://h&project={ID}",
        f"potluck://user@join?hub=http://h&project={ID}",
        f"potluck://join?hub=http://h&project={ID}#fragment",
        f"potluck://join?project={ID}",
        "potluck://join?hub=http://h",
        f"potluck://join?hub=http://h&hub=http://g&project={ID}",
        f"potluck://join?hub=http://h&project={ID}&run=calc",
        f"potluck://join?hub=http://h&project={ID[:-1]}",
        f"potluck://join?hub=http://h&project={ID}0",
        f"potluck://join?hub=http://h&project={ID[:-1]}g",
        f"potluck://join?hub=http://h&project=../../{ID[:-6]}",
        f"potluck://join?hub=file:///etc/passwd&project={ID}",
        f"potluck://join?hub=javascript:alert(1)&project={ID}",
        f"potluck://join?hub=//h&project={ID}",
        f"potluck://join?hub=http://&project={ID}",
        f"potluck://join?hub=http://name:secret@h&project={ID}",
        f"potluck://join?hub=http://h:99999&project={ID}",
        f"potluck://join?hub=http://h:0&project={ID}",
        f"potluck://join?hub=http://h:x&project={ID}",
        f"potluck://join?hub=http://h%3Fa=b&project={ID}",
        f"potluck://join?hub=http://h%23x&project={ID}",
        f"potluck://join?hub=http://h%0d%0aX&project={ID}",
        f"potluck://join?hub=http://h%00&project={ID}",
        f"potluck://join?hub=http://[::1&project={ID}",
        f"potluck://join?hub=http://h&project={ID}\n",
        f"potluck://join?hub=http://h\u00e4&project={ID}",
        f"potluck://join?hub=http://{'h' * 1300}&project={ID}",
    ],
)
def test_bad_links_are_refused_with_a_reason(link):
    with pytest.raises(ControlError) as refused:
        parse_link(link)
    assert refused.value.code is ErrorCode.BAD_LINK
    detail = refused.value.params["detail"]
    assert isinstance(detail, str)
    assert detail


@pytest.mark.parametrize("link", [JoinLink("ftp://h", ID), JoinLink("http://h", "x"), JoinLink("http://a b", ID)])
def test_bad_links_cannot_be_built(link):
    with pytest.raises(ControlError):
        build_link(link)


pieces = st.sampled_from(
    ["potluck://", "join", "?", "hub=", "http://", "h", "&", "project=", ID, "%", "@", "#", "[", ":"]
)


@given(text=st.one_of(st.text(max_size=MAX_LINK_CHARS + 20), st.lists(pieces, max_size=14).map("".join)))
def test_any_text_is_a_link_or_refused(text):
    try:
        link = parse_link(text)
    except ControlError:
        return
    assert parse_link(build_link(link)) == link
