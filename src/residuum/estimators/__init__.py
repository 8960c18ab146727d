"""The scikit-learn face: classifiers, enrolment, confidence."""
