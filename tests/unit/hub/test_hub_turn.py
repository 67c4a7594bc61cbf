"""Credentials for a TURN server, as coturn checks them."""

import base64
import hashlib
import hmac
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.hub.config import HubConfig
from engine.hub.turn import TurnAccess
from engine.runtime.hub_command import _turn
from engine.signaling.messages import IceServer

URLS = ("turn:relay.example:3478?transport=udp", "turns:relay.example:5349")
SECRET = "shared with the relay"
NOW = 1_760_000_000.5


def test_a_credential_is_for_one_peer_and_passes() -> None:
    server = TurnAccess(URLS, SECRET, 600).server_for("abcdefghijklmnopqrstuvwxyz", NOW)
    assert server.urls == URLS
    expires, _, name = server.username.partition(":")
    assert (int(expires), name) == (1_760_000_600, "abcdefghijklmnop")
    wanted = hmac.new(SECRET.encode(), server.username.encode(), hashlib.sha1).digest()
    assert base64.b64decode(server.credential) == wanted


def test_a_hub_tells_each_peer_its_own() -> None:
    stun = IceServer(urls=("stun:s.example",))
    config = HubConfig(database_url="sqlite://", ice_servers=(stun,), turn=TurnAccess(URLS, SECRET))
    one, two = config.servers_for("a" * 52, NOW), config.servers_for("b" * 52, NOW)
    assert one[0] == two[0] == stun
    assert one[1].credential != two[1].credential
    assert SECRET not in repr(config)


@pytest.mark.parametrize(("urls", "secret"), [((), SECRET), (("stun:s.example",), SECRET), (URLS, "short")])
def test_what_makes_no_sense_is_refused(urls: tuple[str, ...], secret: str) -> None:
    with pytest.raises(ValueError, match=r"turn|secret"):
        TurnAccess(urls, secret)


def test_the_secret_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    assert _turn(list(URLS), file) == TurnAccess(URLS, SECRET)
    assert _turn([], None) is None
    for urls, place in ((list(URLS), None), ([], file), (list(URLS), tmp_path / "none"), (["stun:x"], file)):
        with pytest.raises(UserError):
            _turn(urls, place)
