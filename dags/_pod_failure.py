"""Failure of a task's pod: one that a retry would not change is not retried."""

from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# Neither signals nor exit codes that Python or the shell uses.
SKIPPED, PERMANENT = 99, 98


class PodOperator(KubernetesPodOperator):
    """A pod whose exit code PERMANENT fails its task at once."""

    def cleanup(self, pod: Any, remote_pod: Any, *more: Any, **options: Any) -> None:
        """Delete the pod, and raise what its end means."""
        try:
            super().cleanup(pod, remote_pod, *more, **options)
        except AirflowException as error:
            states = (remote_pod.status.container_statuses if remote_pod else None) or ()
            ended = [status.state.terminated for status in states if status.name == self.base_container_name]
            if any(status and status.exit_code == PERMANENT for status in ended):
                raise AirflowFailException(str(error)) from None
            raise
