"""`inferometer bricks`: predicts models from the times of their unique layers (DLBricks)."""

import typer

from inferometer_cli.commands.bricks import generate, predict, run

app = typer.Typer(
    name="bricks",
    help="Time the unique layers of models once, and predict any model that consists of them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("generate", short_help="Show how few unique bricks some models have.")(
    generate.generate
)
app.command("export", short_help="Write the unique bricks, without names and weights.")(
    generate.export
)
app.command("run", short_help="Time the bricks of models, or of an export, here.")(run.run)
app.command("predict", short_help="Predict the latency of models from the times of bricks.")(
    predict.predict_models
)
app.command("coverage", short_help="Show how much of a model this machine knows.")(predict.coverage)
