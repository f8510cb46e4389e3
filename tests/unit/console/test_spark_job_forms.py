"""Forms of Spark jobs from the parameters of a kind."""

from __future__ import annotations

from console.spark_job_forms import SparkJobForm
from controlplane.services import Rejected
from weir_common.spark_jobs import KINDS


def test_an_empty_number_is_left_to_the_default() -> None:
    form = SparkJobForm(KINDS["profile"], {"name": "x", "topics": "a", "records_per_partition": ""})
    assert form.is_valid() and form.parameters == {"topics": "a"}


def test_an_error_of_a_parameter_is_next_to_its_field() -> None:
    form = SparkJobForm(KINDS["profile"], {"name": "x", "topics": "a"})
    assert form.is_valid()
    form.reject(Rejected("too small", "parameters.records_per_partition"))
    assert form.errors["records_per_partition"] == ["too small"]
