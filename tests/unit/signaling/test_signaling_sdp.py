import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.signaling.messages import MAX_SDP_BYTES, SignalingError
from engine.signaling.sdp import Candidate, parse_sdp, reachable, render
from tests.helpers.introductions import FINGERPRINT, sdp_text


def test_a_description_is_read() -> None:
    transport = parse_sdp(sdp_text())
    assert transport.fingerprints == (("sha-256", FINGERPRINT),)
    assert (transport.ufrag, transport.password) == ("1mT3", "sIAnL2SwTEfeJCD9kNaZlJ")
    assert (transport.setup, transport.sctp_port) == ("actpass", 5000)
    assert transport.candidates == (Candidate("abc0", 2130706431, "127.0.0.1", 40000, "host"),)


def test_what_is_rendered_reads_the_same() -> None:
    transport = parse_sdp(sdp_text(setup="active", candidates=("192.168.1.2 5000", "2001:db8::1 6000")))
    assert parse_sdp(render(transport, transport.candidates)) == transport


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("a=fingerprint:sha-256 " + FINGERPRINT, "a=x", "no SHA-256 fingerprint"),
        ("sha-256", "md5", "malformed fingerprint line"),
        (FINGERPRINT, FINGERPRINT[:-3], "malformed fingerprint"),
        (FINGERPRINT, FINGERPRINT + ":AB", "malformed or repeated sha-256"),
        ("a=ice-ufrag:1mT3\r\n", "", "0 ice-ufrag lines"),
        ("a=ice-ufrag:1mT3", "a=ice-ufrag:1mT3\r\na=ice-ufrag:1mT4", "2 ice-ufrag lines"),
        ("1mT3", "!", "malformed ice-ufrag"),
        ("sIAnL2SwTEfeJCD9kNaZlJ", "short", "malformed ice-pwd"),
        ("a=setup:actpass", "a=setup:holdconn", "malformed setup"),
        ("a=sctp-port:5000", "a=sctp-port:70000", "SCTP port 70000"),
        ("a=sctp-port:5000", "a=sctp-port:x", "malformed sctp-port"),
        ("max-message-size:262144", "max-message-size:1000", "only messages up to 1000"),
        ("m=application", "m=audio", "exactly one section"),
        ("t=0 0", "m=application 9 x y", "exactly one section"),
        ("s=-", "s=\x07", "printable ASCII"),
        ("s=-", "s=ü", "printable ASCII"),
        ("s=-", "s=" + "x" * MAX_SDP_BYTES, "exceeds"),
        ("s=-", "a=b\r\n" * 200, "lines exceeds"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, complaint: str) -> None:
    changed = sdp_text().replace(old, new)
    assert changed != sdp_text()
    with pytest.raises(SignalingError, match=complaint):
        parse_sdp(changed)


def test_too_many_candidates_are_refused() -> None:
    with pytest.raises(SignalingError, match="25 candidates"):
        parse_sdp(sdp_text(candidates=("10.0.0.1 5000",) * 25))


@pytest.mark.parametrize(
    "place", ["printer.local 5000", "10.0.0.1 80", "10.0.0.1 99999", "10.0.0.1;x 5000", "1.2.3 5000"]
)
def test_candidates_that_nobody_should_send_to_are_passed_over(place: str) -> None:
    assert parse_sdp(sdp_text(candidates=(place, "10.0.0.1 5000"))).candidates[0].host == "10.0.0.1"


def candidate(host: str) -> Candidate:
    return Candidate("a", 1, host, 5000, "host")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_loopback_is_sent_to_in_loopback_only(host: str) -> None:
    assert reachable((candidate(host),), loopback_only=True)
    assert not reachable((candidate(host),), loopback_only=False)


@pytest.mark.parametrize("host", ["192.168.1.7", "8.8.8.8", "2001:4860::1"])
def test_other_computers_are_not_sent_to_in_loopback_only(host: str) -> None:
    assert not reachable((candidate(host),), loopback_only=True)
    assert reachable((candidate(host),), loopback_only=False)


@pytest.mark.parametrize("host", ["224.0.0.1", "255.255.255.255", "0.0.0.0", "::", "ff02::1"])
def test_groups_and_nowhere_are_never_sent_to(host: str) -> None:
    assert not reachable((candidate(host),), loopback_only=False)
    assert not reachable((candidate(host),), loopback_only=True)


@given(st.text(max_size=300))
def test_random_text_is_refused(text: str) -> None:
    with pytest.raises(SignalingError):
        parse_sdp(text)


@given(st.data())
def test_any_mutation_is_read_or_refused(data: st.DataObject) -> None:
    text = sdp_text()
    at = data.draw(st.integers(0, len(text) - 1))
    mutated = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 5)) :]
    try:
        transport = parse_sdp(mutated)
    except SignalingError:
        return
    assert parse_sdp(render(transport, transport.candidates)) == transport
