"""Writes tests/golden/report/events.golden with the tensorboard package, or checks a file of ours with its reader.

    python dev/report/tensorboard_golden.py            # write the golden file
    python dev/report/tensorboard_golden.py EVENTS     # print what TensorBoard's own loader sees in EVENTS
"""

import pathlib
import sys

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

ROWS = [
    (0, 1700000000.5, [("train/loss", 4.25)]),
    (1, 1700000001.5, [("train/loss", 3.5), ("train/lr", 0.001)]),
    (300, 1700000002.25, [("eval/loss", -0.0), ("perf/tokens_per_s", 12345.678)]),
    (5000000000, 1700000003.0, [("grüße/loss", 1e-30)]),
]


def write(path):
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        writer.write(event_pb2.Event(wall_time=1700000000.0, file_version="brain.Event:2").SerializeToString())
        for step, time, values in ROWS:
            summary = summary_pb2.Summary(
                value=[summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in values])
            event = event_pb2.Event(wall_time=time, step=step, summary=summary)
            writer.write(event.SerializeToString())
        writer.flush()


def show(path):
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    for raw in RawEventFileLoader(path).Load():
        event = event_pb2.Event.FromString(raw)
        values = [(v.tag, v.simple_value) for v in event.summary.value]
        print(event.step, event.wall_time, event.file_version or values)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        write(pathlib.Path(__file__).resolve().parents[2] / "tests/golden/report/events.golden")
