"""Runs the changes of the schema for Alembic, on a connection that is open."""

from alembic import context

from inferometer_results.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
