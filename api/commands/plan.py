"""`galley plan`: what an engine would decide, without loading one."""

import argparse

from galley.api.commands.loading import cache_folder, locate, table
from galley.api.commands.options import MODEL_HELP, add_engine
from galley.api.commands.progress import screen, watch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `galley plan`."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help=MODEL_HELP)
    add_engine(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the plan; raises what reading a checkpoint raises, PlanError and BadPolicy."""
    from galley.model import checkpoint, hub  # jax takes seconds to import
    from galley.spec import plan, policies

    with watch(screen()) as progress:
        model = locate(args.model, cache_folder(args), progress)
    source = checkpoint.read(hub.resolve(model))
    drafts = policies.make(args.policy, policies.Target(source, args.dtype))
    device = plan.this_device()
    sizes = plan.fit(source.config, args.dtype, device, drafts.width, drafts.tree)
    print(table([("model", source.name), *sizes.lines()]))
    return 0
