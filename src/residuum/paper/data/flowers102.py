"""Oxford 102 Flowers: 8,189 photographs of 102 classes, labels 1 to 102.

The owner's parts are trnid (1,020 images, 10 per class), valid (1,020, 10 per class) and tstid (6,149), named
"train", "val" and "test" here. By default **train and val train together**, 2,040 images, and test tests: the
paper does not say which parts it used, and this is the usual way where parameters are chosen by
cross-validation. With ``dataclasses.replace(flowers, train_parts=("train",))`` 1,020 images train, and val
counts as test.
"""

from __future__ import annotations

from pathlib import Path

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, Source, remote
from residuum.paper.data.readers import read_mat, whole
from residuum.paper.data.samples import Counts, ImageSamples, image_samples

_PARTS = (("trnid", "train"), ("valid", "val"), ("tstid", "test"))
# The owner's files number the classes; these are the names in general use, in the order of the numbers.
_NAMES = """
pink primrose, hard-leaved pocket orchid, canterbury bells, sweet pea, english marigold, tiger lily, moon
orchid, bird of paradise, monkshood, globe thistle, snapdragon, colt's foot, king protea, spear thistle,
yellow iris, globe-flower, purple coneflower, peruvian lily, balloon flower, giant white arum lily, fire
lily, pincushion flower, fritillary, red ginger, grape hyacinth, corn poppy, prince of wales feathers,
stemless gentian, artichoke, sweet william, carnation, garden phlox, love in the mist, mexican aster,
alpine sea holly, ruby-lipped cattleya, cape flower, great masterwort, siam tulip, lenten rose, barberton
daisy, daffodil, sword lily, poinsettia, bolero deep blue, wallflower, marigold, buttercup, oxeye daisy,
common dandelion, petunia, wild pansy, primula, sunflower, pelargonium, bishop of llandaff, gaura,
geranium, orange dahlia, pink-yellow dahlia, cautleya spicata, japanese anemone, black-eyed susan,
silverbush, californian poppy, osteospermum, spring crocus, bearded iris, windflower, tree poppy,
gazania, azalea, water lily, rose, thorn apple, morning glory, passion flower, lotus, toad lily,
anthurium, frangipani, clematis, hibiscus, columbine, desert-rose, tree mallow, magnolia, cyclamen,
watercress, canna lily, hippeastrum, bee balm, ball moss, foxglove, bougainvillea, camellia, mallow,
mexican petunia, bromelia, blanket flower, trumpet creeper, blackberry lily
"""
_FROM = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"


def _read(folder: Path, label_file: Path, split_file: Path) -> ImageSamples:
    labels = whole(label_file, read_mat(label_file, ("labels",))["labels"].ravel())
    sets = read_mat(split_file, tuple(variable for variable, _ in _PARTS))
    parts: dict[int, str] = {}
    for variable, part in _PARTS:
        for number in whole(split_file, sets[variable].ravel()).tolist():
            if not 1 <= number <= len(labels) or number in parts:
                raise DataFormatError(
                    f"{split_file}: {variable} names image {number}; expected 1 to {len(labels)}, each once."
                )
            parts[number] = part
    rows = ((f"image_{n:05d}.jpg", int(labels[n - 1]), parts[n]) for n in sorted(parts))
    names = dict(enumerate((" ".join(name.split()) for name in _NAMES.split(",")), start=1))
    return image_samples(folder, rows, names, train_parts=("train", "val"))


FLOWERS102 = DataSet(
    name="flowers102",
    title="Oxford 102 Flowers",
    access="open",
    licence="not stated by the owner; for research, with citation",
    citation="M.-E. Nilsback, A. Zisserman. Automated flower classification over a large number of classes. "
    "ICVGIP, 2008.",
    photographs=True,
    counts=Counts(n_classes=102, parts={"train": (1020,), "val": (1020,), "test": (6149,)}),
    sources=(
        Source(
            kind="owner's files",
            layout="the folder jpg with image_00001.jpg ... image_08189.jpg, imagelabels.mat and setid.mat",
            names=("jpg/", "imagelabels.mat", "setid.mat"),
            read=_read,
        ),
    ),
    files=(
        remote(
            "102flowers.tgz",
            _FROM,
            sha256="2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
            unpack_to="jpg",
        ),
        remote(
            "imagelabels.mat",
            _FROM,
            sha256="4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
        ),
        remote(
            "setid.mat",
            _FROM,
            sha256="46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
        ),
    ),
)
