"""`galley convert`: a model of any format as an Orbax checkpoint."""

import argparse
from pathlib import Path

from galley.api.commands.errors import CannotRun
from galley.api.commands.options import add_dtype


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `galley convert`."""
    parser.add_argument(
        "model", metavar="MODEL", help="a .gguf file, a Hugging Face folder, or owner/name"
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="a folder that does not exist yet")
    add_dtype(parser)


def run(args: argparse.Namespace) -> int:
    """Writes the folder; raises what reading a checkpoint raises, and CannotRun."""
    from galley.model import checkpoint, hub, orbax_folder  # orbax takes seconds to import

    source = checkpoint.read(hub.resolve(args.model))
    try:
        orbax_folder.write(source, args.out.absolute(), args.dtype)
    except FileExistsError as error:
        raise CannotRun(str(error)) from error
    except OSError as error:
        raise CannotRun(f"{args.out} cannot be written ({error.strerror}); make room") from error
    print(f"wrote {source.name} to {args.out}; serve it with: galley serve {args.out}")
    return 0
