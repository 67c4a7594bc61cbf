"""What a `potluck://` link offers, asked of the link's own hub before anything is changed."""

import aiohttp

from engine.contract.errors import ControlError, ErrorCode
from engine.contract.links import JoinLink
from engine.contract.snapshot import Machine
from engine.core.errors import UserError
from engine.hub.client import Catalogue, HubClient
from engine.hub.errors import HubError
from engine.identity.keys import Identity
from engine.runtime.catalogue import cards


async def catalogue_with(
    link: JoinLink, identity: Identity, http: aiohttp.ClientSession, machine: Machine
) -> Catalogue:
    """The catalogue of the link's hub, which lists the link's project, and `machine` can take part in that.

    Raises:
        ControlError: BAD_LINK, HUB_UNREACHABLE, UNKNOWN_PROJECT or PROJECT_UNUSABLE.
    """
    try:
        catalogue = await HubClient(link.hub, identity, http).projects()
    except UserError as error:
        raise ControlError(ErrorCode.BAD_LINK, detail=error.sentence) from error
    except HubError as error:
        raise ControlError(ErrorCode.HUB_UNREACHABLE, url=link.hub, detail=error.detail) from error
    entry = next((entry for entry in catalogue.projects if entry.verified.project_id == link.project), None)
    if entry is None:
        raise ControlError(ErrorCode.UNKNOWN_PROJECT, project=link.project)
    (card,) = cards([entry], None, machine, lambda _parameters: None)
    if card.unusable_because:
        raise ControlError(ErrorCode.PROJECT_UNUSABLE, detail=card.unusable_because)
    return catalogue
