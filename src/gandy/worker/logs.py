"""Log files for tasks of an original foreman: it names the folder, and one file there takes output and errors.

A foreman may run any command here, so it may also choose any folder. The name of a job is only part of a file name.
"""

import os

from gandy.limits import MAX_LOG_NUMBER
from gandy.worker.output import FLAGS, OutputFiles
from gandy.worker.spawn import NotStartedError, make_start_error


def open_log(folder: str, job_name: str, task: int) -> OutputFiles:
    """Create FOLDER/NAME_TASK.log; if that exists, FOLDER/NAME_TASK-1.log, and so on.

    Raises: NotStartedError, ShortageError.
    """
    start = os.path.join(os.path.abspath(folder), f"{job_name.replace('/', '_')}_{task}")  # noqa: PTH100, PTH118
    for number in range(MAX_LOG_NUMBER + 1):
        path = f"{start}-{number}.log" if number else f"{start}.log"
        try:
            os.close(os.open(path, FLAGS | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            continue
        except OSError as error:
            raise make_start_error(f"error opening log {path}", error) from error
        except ValueError as error:  # a zero byte, or text that has no UTF-8 form
            raise NotStartedError(f"error opening log: {error}") from error
        return OutputFiles(path, path, is_ours=False)
    raise NotStartedError(f"error opening log: there are {MAX_LOG_NUMBER:,} logs of {start} already")
