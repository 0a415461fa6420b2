"""``tidemark token``: manage the access tokens of a home, which a server then asks for."""

from enum import StrEnum
from typing import Annotated, Literal

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of
from lakehouse.cli.output import print_json, print_table

EXAMPLES = (
    "tidemark token add grafana",
    "tidemark token add analyst --scope read --scope sql --scope file",
    "tidemark token add greenhouse --stream telemetry",
    "tidemark token list",
    "tidemark token revoke grafana",
)


Action = Literal["add", "list", "revoke"]


class Scopes(StrEnum):
    """The scopes of a token."""

    READ = "read"
    SQL = "sql"
    FILE = "file"
    QUARANTINE = "quarantine"


def token(
    context: typer.Context,
    action: Annotated[Action, typer.Argument(help="add, list or revoke.")],
    name: Annotated[str, typer.Argument(help="The token's name.", show_default=False)] = "",
    scope: Annotated[
        list[Scopes] | None, typer.Option(help="A scope [default: read]; may be repeated.")
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="Only this stream [default: all]; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make, list or revoke tokens of `tidemark web`.

    A token is shown once, when it is made; the home stores a hash of it. Scopes: read opens answers, charts and
    tables; sql opens SELECTs of one's own; file opens the published file; quarantine opens rejected records with
    their bytes, which may be personal data.
    """
    from lakehouse.storage.layout import Home
    from lakehouse.web.security.tokens import Scope, TokenError, add_token, read_tokens, revoke_token

    layout = Home(globals_of(context).home_folder())
    if (action == "list") is bool(name):
        raise WrongUsage(f"token {action}: expected {'no name' if name else 'the name of a token'}")
    if action == "list":
        shown = ("name", "scopes", "streams", "created_at")
        rows = [[getattr(one, part) for part in shown] for one in read_tokens(layout)]
        if as_json:
            print_json([dict(zip(shown, row, strict=True)) for row in rows])
        else:
            print_table(shown, [["all" if cell is None else cell for cell in row] for row in rows])
        return
    try:
        if action == "revoke":
            revoke_token(layout, name)
            print_json({"revoked": name}) if as_json else print(f"revoked {name}")
        else:
            made = add_token(layout, name, [Scope(one) for one in scope or [Scopes.READ]], stream)
            print_json({"name": name, "token": made}) if as_json else print(made)
    except TokenError as error:
        raise WrongUsage(str(error)) from None
