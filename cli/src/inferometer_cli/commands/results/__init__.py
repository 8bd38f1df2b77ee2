"""`inferometer results`: the results that this machine keeps."""

from inferometer_cli.command_group import CommandGroup
from inferometer_cli.commands.results import (
    annotate,
    compare,
    confirm,
    listing,
    push,
    remove,
    serve,
    show,
    transfer,
    trend,
)

app = CommandGroup("results", help="Find, compare, show and export results, here or in a cluster.")
app.command("list", short_help="List results, newest first.")(listing.list_results)
app.command("fields", short_help="List the fields of --where and --sort.")(listing.fields)
app.command("show", short_help="Print one result.")(show.show)
app.command("compare", short_help="Compare two results.")(compare.compare)
app.command("trend", short_help="Show a figure over time, and where its level changes.")(
    trend.trend
)
app.command("confirm", short_help="Confirm a change by measuring both sides in turn.")(
    confirm.confirm
)
app.command("serve", short_help="Serve results as web pages and as an API.")(serve.serve)
app.command("export", short_help="Write results as CSV, Parquet or JSON lines.")(transfer.export)
app.command("import", short_help="Keep results from files, folders or an export.")(
    transfer.import_results
)
app.command("push", short_help="In a cluster: keep a result of this machine.")(push.push)
app.command("tag", short_help="Tag a result, or remove a tag.")(annotate.tag)
app.command("retract", short_help="Mark a result as wrong, with the reason.")(annotate.retract)
app.command("delete", short_help="Delete results.")(remove.delete)
app.command("prune", short_help="Delete old results.")(remove.prune)
app.command("reindex", short_help="Make the index anew from the documents.")(annotate.reindex)
