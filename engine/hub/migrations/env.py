"""What alembic runs: the pending revisions, on the connection that `engine.hub.upgrade` hands over."""

from alembic import context

from engine.hub.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
