"""The history of the store's schema, as Alembic runs it. Each change is a file in `versions`.

A change of `tables.py` needs a new file here and a new `database.HEAD`.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def upgrade(connection: Connection) -> None:
    """Bring the schema of a database up to date, within the transaction of the connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
