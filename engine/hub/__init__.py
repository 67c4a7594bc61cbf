"""The meeting place: catalogue, introductions, ledger, web pages. The only part that uses SQLAlchemy and alembic."""
