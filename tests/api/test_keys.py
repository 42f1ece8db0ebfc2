"""Keys, and the file that they are kept in."""

import hmac
import os
from pathlib import Path

import pytest

from galley.api.access import key_edit, key_file, keys
from galley.api.access.key_file import BadKeys, KeyEntry, TenantEntry

ODD = 'a "tenant" \\ with\nlines, \x01 and \x7f, é and 😀'
ANN = KeyEntry("a" * 64, "ann", ("usual",), admin=True)
BOB = KeyEntry("b" * 64, "bob")
WRITTEN = """# who may come in
usual = "usual"

[[class]]
name = "interactive"
share = 0.25
first_token = 1.5

[[class]]
name = "usual"  # most of it
max_queued = 10
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(WRITTEN)
    return path


def refusal(path: Path, text: str) -> str:
    with pytest.raises(BadKeys) as caught:
        key_file.parsed(text, path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_every_key_is_new_and_has_256_random_bits() -> None:
    made = {keys.make() for _ in range(100)}
    assert len(made) == 100
    assert {len(key) for key in made} == {len(keys.PREFIX) + 43}  # 32 bytes in base 64


def test_what_is_kept_of_a_key_stays_what_it_is_or_files_would_be_worth_nothing() -> None:
    kept = "933fe89a8b298e4e96ae5559cf1d741260f126a252f951ab0047fca190b44e88"
    assert keys.digest(b"galley-key") == kept


def test_a_key_is_found_and_others_are_not() -> None:
    known = [keys.Key(keys.digest(b"one"), "ann"), keys.Key(keys.digest(b"two"), "bob")]
    ring = keys.Keyring(known)
    assert [ring.find(key) for key in (b"one", b"two", b"three", b"")] == [*known, None, None]


def test_all_keys_are_compared_whichever_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(a) or real(a, b))
    ring = keys.Keyring(keys.Key(keys.digest(b"%d" % n), "ann") for n in range(3))
    for presented in (b"0", b"2", b"none"):
        compared.clear()
        ring.find(presented)
        assert len(compared) == 3


def test_a_file_gives_classes_in_its_order_with_shares_caps_and_targets(file: Path) -> None:
    classes = key_file.read(file).priority_classes()
    first, second = classes.ordered
    assert (first.name, first.share, first.target.first_token) == ("interactive", 0.25, 1.5)
    assert (second.name, second.max_queued, second.target.total) == ("usual", 10, None)
    assert classes.usual is second


def test_a_file_without_classes_has_the_one_default_class() -> None:
    assert [each.name for each in key_file.KeyFile().priority_classes().ordered] == ["default"]


def test_what_is_added_is_read_again_whatever_the_tenant_is_called(file: Path) -> None:
    key = KeyEntry("c" * 64, ODD, ("usual", "interactive"), admin=True)
    key_edit.add(file, key, TenantEntry(ODD, 2, 3))
    key_edit.add(file, BOB)
    read = key_file.read(file)
    assert read.entries == [key, BOB]
    assert read.limits(ODD) == TenantEntry(ODD, 2, 3)
    assert read.limits("bob") is None


def test_what_people_wrote_stays_as_they_wrote_it(file: Path) -> None:
    key_edit.add(file, ANN)
    with file.open("a") as more:
        more.write("\n# Bob leaves in May\n")
    key_edit.add(file, BOB)
    before = file.read_text()
    key_edit.remove(file, ANN.hash)
    after = file.read_text()
    assert before.startswith(WRITTEN)
    assert after.startswith(WRITTEN)
    assert "# Bob leaves in May" in after
    assert key_file.read(file).entries == [BOB]


def test_removing_all_keys_leaves_the_file_as_it_was(file: Path) -> None:
    for key in (ANN, BOB):
        key_edit.add(file, key)
    for key in (ANN, BOB):
        assert key_edit.remove(file, key.hash[: key_edit.ID]) == key
    assert file.read_text() == WRITTEN


@pytest.mark.parametrize("name", ["a" * 11, "c" * 12, ""])
def test_a_key_is_removed_only_by_enough_of_its_own_name(file: Path, name: str) -> None:
    key_edit.add(file, ANN)
    with pytest.raises(BadKeys, match="galley keys list"):
        key_edit.remove(file, name)
    assert key_file.read(file).entries == [ANN]


def test_keys_that_share_the_name_are_not_removed(file: Path) -> None:
    for last in "de":
        key_edit.add(file, KeyEntry("a" * 63 + last, "ann"))
    with pytest.raises(BadKeys, match="no key"):
        key_edit.remove(file, "a" * 12)


def test_an_entry_that_cannot_be_cut_out_is_left(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(f'key = [{{hash = "{"a" * 64}", tenant = "ann"}}]\n')
    with pytest.raises(BadKeys, match="by hand"):
        key_edit.remove(path, "a" * 12)
    assert key_file.read(path).entries == [KeyEntry("a" * 64, "ann")]


def test_a_new_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        key_edit.add(tmp_path / "new.toml", BOB)
    finally:
        os.umask(umask)
    assert (tmp_path / "new.toml").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["new.toml"]


def test_a_file_keeps_the_mode_that_it_was_given(file: Path) -> None:
    file.chmod(0o640)
    key_edit.add(file, BOB)
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_link_to_the_file_stays_one(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    key_edit.add(link, BOB)
    assert link.is_symlink()
    assert key_file.read(file).entries == [BOB]


def test_a_write_that_fails_leaves_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadKeys, match="No space left"):
        key_edit.add(file, BOB)
    assert file.read_text() == WRITTEN
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_other_limits_of_a_tenant_are_not_overwritten(file: Path) -> None:
    key_edit.add(file, BOB, TenantEntry("bob", 2, 3))
    key_edit.add(file, KeyEntry("c" * 64, "bob"), TenantEntry("bob", 2, 3))
    with pytest.raises(BadKeys, match="max_running is 2, max_queued is 3; change them there"):
        key_edit.add(file, KeyEntry("d" * 64, "bob"), TenantEntry("bob", 4))
    assert len(key_file.read(file).entries) == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("usual = [", "is not TOML"),
        ('[[key]]\nhash = "x"\ntenant = "ann"', "key 1, hash"),
        (f'[[key]]\nhash = "{"a" * 64}"\ntenant = 5', "key 1, tenant: expected `str`, got `int`"),
        (f'[[key]]\nhash = "{"a" * 64}"\ntenant = ""', "key 1, tenant"),
        (f'[[key]]\nhash = "{"a" * 64}"', "key 1: object missing required field `tenant`"),
        (f'[[key]]\nhash = "{"a" * 64}"\ntenant = "ann"\npriorities = []', "unknown field"),
        ('[[class]]\nname = "a"\n[[class]]\nname = "b"\nshare = 2', "class 2, share"),
        ('[[class]]\nname = "a"\ngap = 0', "class 1, gap"),
        ('[[class]]\nname = "a"\n[[class]]\nname = "a"', "each priority class needs a name"),
        ('usual = "none"', "'none' is no class here"),
        ('[[tenant]]\nname = "ann"\nmax_running = 0', "tenant 1, max_running"),
        ('[[tenant]]\nname = "ann"\nmax_queued = 5', "missing required field `max_running`"),
        ('[[tenant]]\nname = "a"\nmax_running = 1\n' * 2, "tenant 'a' is there twice"),
        (f'[[key]]\nhash = "{"a" * 64}"\ntenant = "a"\n' * 2, "is there twice"),
        (
            f'[[key]]\nhash = "{"a" * 64}"\ntenant = "ann"\npriority = ["fast"]',
            "key 1 (tenant 'ann'), priority: 'fast' is no class here",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(
    tmp_path: Path, text: str, place: str
) -> None:
    assert place in refusal(tmp_path / "keys.toml", text)


def test_a_file_that_is_not_there_is_told_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadKeys, match="galley keys add"):
        key_file.read(tmp_path / "none.toml")


def test_the_example_in_the_documentation_is_a_file_that_can_be_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    example = page.split("```toml\n")[1].split("```")[0].replace("…", "a" * 64)
    file = key_file.parsed(example, tmp_path / "keys.toml")
    assert [each.name for each in file.priority_classes().ordered] == [
        "interactive",
        "standard",
        "batch",
    ]
    assert file.priority_classes().usual.name == "standard"
    assert file.keys[0].priority == ("standard", "interactive")
