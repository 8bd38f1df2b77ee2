"""`inferometer bricks`: predicts models from the times of their unique layers (DLBricks)."""

from inferometer_cli.command_group import CommandGroup
from inferometer_cli.commands.bricks import generate, predict, run

app = CommandGroup("bricks", help="Predict any model from the times of the unique layers of some.")
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
