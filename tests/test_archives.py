"""Hostile archives: nothing outside the target, nothing left behind, every cap enforced."""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from residuum.errors import ArchiveError
from residuum.system.archives import Limits, safe_extract


def tar_of(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def zip_of(path: Path, members: list[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def zip_entry(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    return info


GOOD = (member("good.txt"), b"good")
HOSTILE_TARS = {
    "parent": [GOOD, (member("../evil.txt"), b"x")],
    "deep parent": [GOOD, (member("a/../../evil.txt"), b"x")],
    "absolute": [GOOD, (member("/tmp/residuum-evil.txt"), b"x")],
    "symlink out": [GOOD, (member("link", tarfile.SYMTYPE, linkname="/etc/passwd"), b"")],
    "symlink in": [GOOD, (member("link", tarfile.SYMTYPE, linkname="good.txt"), b"")],
    "write through symlink": [
        (member("d", tarfile.SYMTYPE, linkname=".."), b""),
        (member("d/evil.txt"), b"x"),
    ],
    "hardlink": [GOOD, (member("link", tarfile.LNKTYPE, linkname="../../secret"), b"")],
    "character device": [GOOD, (member("null", tarfile.CHRTYPE, devmajor=1, devminor=3), b"")],
    "block device": [GOOD, (member("disk", tarfile.BLKTYPE, devmajor=8, devminor=0), b"")],
    "fifo": [GOOD, (member("pipe", tarfile.FIFOTYPE), b"")],
    "duplicate": [GOOD, (member("good.txt"), b"other")],
    "duplicate by case": [GOOD, (member("GOOD.txt"), b"other")],
    "windows drive": [GOOD, (member("C:/evil.txt"), b"x")],
    "backslash": [GOOD, (member("..\\evil.txt"), b"x")],
}


@pytest.fixture
def box(tmp_path: Path) -> Path:
    folder = tmp_path / "outer" / "box"
    folder.mkdir(parents=True)
    (tmp_path / "outer" / "secret").write_text("secret")
    return folder


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def assert_refused(archive: Path, box: Path, limits: Limits | None = None, match: str | None = None) -> None:
    outer = box.parent.parent
    before = everything(outer)
    with pytest.raises(ArchiveError, match=match):
        safe_extract(archive, box / "target", limits=limits)
    assert everything(outer) == before
    assert not Path("/tmp/residuum-evil.txt").exists()


@pytest.mark.parametrize("case", HOSTILE_TARS)
def test_hostile_tar_is_refused_whole(case: str, box: Path) -> None:
    assert_refused(tar_of(box / "a.tar.gz", HOSTILE_TARS[case]), box)


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/tmp/residuum-evil.txt", "a/../../evil.txt", "C:\\evil.txt", ".."]
)
def test_hostile_zip_name_is_refused(name: str, box: Path) -> None:
    assert_refused(zip_of(box / "a.zip", [("good.txt", b"good"), (name, b"x")]), box, match="outside")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_of_nothing_is_refused(kind: str, box: Path) -> None:
    archive = tar_of(box / "a.tar", [], "w") if kind == "tar" else zip_of(box / "a.zip", [])
    assert_refused(archive, box, match="holds nothing")


def test_zip_symlink_is_refused(box: Path) -> None:
    link = zip_entry("link", stat.S_IFLNK | 0o777)
    assert_refused(zip_of(box / "a.zip", [(link, b"/etc/passwd")]), box, match="link")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_zip_duplicate_is_refused(box: Path) -> None:
    assert_refused(zip_of(box / "a.zip", [("a", b"1"), ("a", b"2")]), box, match="twice")


def test_setuid_bits_are_dropped(box: Path) -> None:
    archive = tar_of(box / "a.tar", [(member("run", mode=0o6777), b"x")], "w")
    safe_extract(archive, box / "target")
    assert stat.S_IMODE((box / "target" / "run").stat().st_mode) & 0o7022 == 0
    zip_of(box / "a.zip", [(zip_entry("run", stat.S_IFREG | 0o6777), b"x")])
    safe_extract(box / "a.zip", box / "zipped")
    assert stat.S_IMODE((box / "zipped" / "run").stat().st_mode) & 0o7000 == 0


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_bomb_is_refused_by_ratio(kind: str, box: Path) -> None:
    zeros = bytes(40 * 2**20)
    if kind == "tar":
        archive = tar_of(box / "a.tar.gz", [(member("zeros"), zeros)])
    else:
        archive = zip_of(box / "a.zip", [("zeros", zeros)])
    assert_refused(archive, box, match="expands")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_total_size_is_capped(kind: str, box: Path) -> None:
    parts = [(f"part{i}", os.urandom(1000)) for i in range(5)]
    if kind == "tar":
        archive = tar_of(box / "a.tar", [(member(name), content) for name, content in parts], "w")
    else:
        archive = zip_of(box / "a.zip", list(parts))
    assert_refused(archive, box, Limits(total_bytes=4000), match="4000 bytes")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_member_count_is_capped(kind: str, box: Path) -> None:
    if kind == "tar":
        archive = tar_of(box / "a.tar", [(member(f"m{i}"), b"") for i in range(51)], "w")
    else:
        archive = zip_of(box / "a.zip", [(f"m{i}", b"") for i in range(51)])
    assert_refused(archive, box, Limits(members=50), match="50 members")


def test_zip_with_a_huge_directory_is_refused_before_it_is_read(box: Path) -> None:
    archive = zip_of(box / "a.zip", [("a", b"1")])
    content = bytearray(archive.read_bytes())
    end = content.rfind(b"PK\x05\x06")
    struct.pack_into("<HH", content, end + 8, 65535, 65535)
    struct.pack_into("<L", content, end + 12, 2**31)
    archive.write_bytes(content)
    assert_refused(archive, box, match="members")


def test_zip64_cannot_hide_a_huge_directory(box: Path) -> None:
    archive = zip_of(box / "a.zip", [("a", b"1")])
    content = archive.read_bytes()
    end = content.rfind(b"PK\x05\x06")
    archive.write_bytes(content[:end] + b"PK\x06\x07" + bytes(16) + content[end:])
    assert_refused(archive, box, match="zip64")


def test_forged_tar_header_cannot_ask_for_gigabytes(box: Path) -> None:
    info = member("././@LongLink", tarfile.GNUTYPE_LONGNAME, size=3 * 2**30)
    (box / "a.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    assert_refused(box / "a.tar", box, match="at once")


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz"])
def test_truncated_or_damaged_archive_leaves_nothing(suffix: str, box: Path) -> None:
    content = os.urandom(5000)
    archive = box / f"a.{suffix}"
    if suffix == "zip":
        zip_of(archive, [("a", content), ("b", content)])
    else:
        tar_of(archive, [(member("a"), content), (member("b"), content)], "w" if suffix == "tar" else "w:gz")
    whole = archive.read_bytes()
    for keep in (0, 1, len(whole) // 2):
        archive.write_bytes(whole[:keep])
        assert_refused(archive, box)


def test_encrypted_zip_is_refused(box: Path) -> None:
    archive = zip_of(box / "a.zip", [("a", b"1")])
    content = bytearray(archive.read_bytes())
    content[content.find(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    assert_refused(archive, box, match="is encrypted")


def test_lying_zip_size_is_refused(box: Path) -> None:
    archive = zip_of(box / "a.zip", [("a", b"1" * 1000)])
    content = bytearray(archive.read_bytes())
    struct.pack_into("<L", content, content.find(b"PK\x01\x02") + 24, 10)
    archive.write_bytes(content)
    assert_refused(archive, box)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_honest_archive_is_extracted(mode: str, box: Path) -> None:
    archive = box / "archive"
    if mode == "zip":
        zip_of(archive, [("top/", b""), ("top/a.txt", b"a"), ("top/sub/b.txt", b"b")])
    else:
        folder = member("./top", tarfile.DIRTYPE, mode=0o755)
        files = [(member("./top/a.txt"), b"a"), (member("./top/sub/b.txt"), b"b")]
        tar_of(archive, [(member(".", tarfile.DIRTYPE, mode=0o755), b""), (folder, b""), *files], mode)
    safe_extract(archive, box / "target")
    assert everything(box / "target") == {"top", "top/a.txt", "top/sub", "top/sub/b.txt"}
    assert (box / "target/top/sub/b.txt").read_bytes() == b"b"
    with pytest.raises(ArchiveError, match="exists"):
        safe_extract(archive, box / "target")
