"""What `numbers_in_text` writes between the marks of a page: a table, or a sentence, for each stored run.

A function has the name of its block, and reads the raw numbers of docs/data.
"""

from __future__ import annotations

from collections.abc import Callable

from stored_figures import descendants, measurements, questions, scale, speed

RENDER: dict[str, Callable[[], str]] = {
    f.__name__: f
    for f in (
        *(measurements.own_tables, measurements.continuum, measurements.calibration, measurements.selection),
        *(measurements.enrolment, measurements.enrolment_60000, measurements.memory, measurements.core),
        *(measurements.moments, measurements.few_right_hand_sides, measurements.million),
        measurements.explorer,
        *(speed.wide_speed, speed.wide_bars, speed.tall_speed, speed.tall_speed_two_threads),
        *(scale.scale_model, scale.scale_runs),
        *(descendants.descendants, descendants.descendants_pairs, descendants.descendants_chosen),
        *(descendants.descendants_faces, descendants.descendants_cost),
        *(questions.usps_constraints, questions.yale_fixed, questions.yale_fixed_ranges),
        *(questions.usps_fixed, questions.usps_svm, questions.usps_rivals),
        *(questions.usps_preparations,),
    )
}
