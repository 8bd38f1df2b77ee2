"""The first schema: documents, the journal, and their index."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "document",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("cluster_uid", sa.String(), nullable=False),
        sa.Column("run_uid", sa.String(), nullable=False),
        sa.Column("namespace", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("received_at", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_table(
        "journal",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(op.f("ix_journal_document_id"), "journal", ["document_id"], unique=False)
    op.create_table(
        "result",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("cluster_uid", sa.String(), nullable=False),
        sa.Column("namespace", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("run_uid", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("received_at", sa.String(), nullable=False),
        sa.Column("started_at", sa.String(), nullable=False),
        sa.Column("finished_at", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("retracted", sa.String(), nullable=True),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("suite", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("model_version", sa.String(), nullable=False),
        sa.Column("model_sha256", sa.String(), nullable=False),
        sa.Column("runtime", sa.String(), nullable=False),
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("cpu", sa.String(), nullable=False),
        sa.Column("gpu", sa.String(), nullable=False),
        sa.Column("inferometer_version", sa.String(), nullable=False),
        sa.Column("schema_version", sa.String(), nullable=False),
        sa.Column("notice", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["id"], ["document.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("result_by_model", "result", ["model", "started_at"], unique=False)
    op.create_index(
        "result_by_model_sha256", "result", ["model_sha256", "started_at"], unique=False
    )
    op.create_index("result_by_name", "result", ["name", "started_at"], unique=False)
    op.create_index("result_by_namespace", "result", ["namespace", "started_at"], unique=False)
    op.create_index("result_by_node", "result", ["node", "started_at"], unique=False)
    op.create_index("result_by_number", "result", ["number"], unique=False)
    op.create_index("result_by_runtime", "result", ["runtime", "started_at"], unique=False)
    op.create_index(
        "result_by_time", "result", ["started_at", "number", "id", "retracted"], unique=False
    )
    op.create_index("result_by_verdict", "result", ["verdict", "started_at"], unique=False)
    op.create_table(
        "label",
        sa.Column("result_id", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["result_id"], ["result.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("result_id", "origin", "name"),
    )
    op.create_index("label_by_name", "label", ["name", "value"], unique=False)
    op.create_table(
        "measurement",
        sa.Column("result_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("scenario", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("headline", sa.Boolean(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("reasons", sa.String(), nullable=False),
        sa.Column("batch_size", sa.BigInteger(), nullable=False),
        sa.Column("clients", sa.BigInteger(), nullable=True),
        sa.Column("queries", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("scheduled_qps", sa.Double(), nullable=True),
        sa.Column("qps", sa.Double(), nullable=False),
        sa.Column("samples_per_second", sa.Double(), nullable=False),
        sa.Column("peak_qps", sa.Double(), nullable=True),
        sa.Column("p50_nanoseconds", sa.BigInteger(), nullable=True),
        sa.Column("p90_nanoseconds", sa.BigInteger(), nullable=True),
        sa.Column("p99_nanoseconds", sa.BigInteger(), nullable=True),
        sa.Column("p999_nanoseconds", sa.BigInteger(), nullable=True),
        sa.Column("microjoules_per_inference", sa.BigInteger(), nullable=True),
        sa.Column("key", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["result_id"], ["result.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("result_id", "position"),
    )
    op.create_index("measurement_by_key", "measurement", ["key"], unique=False)
    op.create_index("measurement_by_p99", "measurement", ["p99_nanoseconds"], unique=False)
    op.create_index("measurement_by_qps", "measurement", ["qps"], unique=False)
