"""`gandy wire` without a process around it: what is printed, where, and with which exit code."""

import json

import pytest
from click.testing import CliRunner, Result
from tests.builders import a_result, a_task

from gandy.cli.main import program
from gandy.doors.v1 import wire as v1
from gandy.wire import v2
from gandy.wire.messages import Error, Extended, Hello, Job, Ok, Stop, Update

OK = v2.encode(2, Ok(17, 5))
JOB = v2.encode(3, Job((a_task(),)))
V1_STREAM = v1.encode(Ok(0)) + v1.encode(Ok(4)) + v1.encode(Job((a_task(),))) + v1.encode(Stop(1))

OK_LINE = '{"type":"OK","subtype":0,"seq":2,"padding":0,"arg0":1114117,"payload":null}\n'


def run(*words: str, data: bytes | str = b"") -> Result:
    return CliRunner().invoke(program, ["wire", *words], input=data, prog_name="gandy")


def test_decode_prints_a_line_for_each_frame() -> None:
    result = run("decode", (OK + JOB).hex())
    first, second = result.stdout.splitlines()
    assert first + "\n" == OK_LINE
    assert json.loads(second)["payload"][0]["JobDescription"]["Command"] == "/bin/true"
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("words", [("-",), ()], ids=["dash", "nothing"])
def test_decode_reads_standard_input(words: tuple[str, ...]) -> None:
    assert run("decode", *words, data=OK.hex(":")).stdout == OK_LINE


def test_decode_joins_its_arguments() -> None:
    assert run("decode", "0x47c00100", "02:00:00:00 00000000", "05001100").stdout == OK_LINE


@pytest.mark.parametrize("words", [("--raw", "-"), ("--raw",)], ids=["dash", "nothing"])
def test_decode_reads_raw_bytes(words: tuple[str, ...]) -> None:
    assert run("decode", *words, data=OK).stdout == OK_LINE


def test_decode_shows_extensions_unopened() -> None:
    shown = json.loads(run("decode", v2.encode(0, Extended(0x41, b"\x00\xff")).hex()).stdout)
    assert (shown["type"], shown["payload"]) == ("0x41", {"hex": "00ff"})


def test_decode_of_the_first_generation_has_no_numbers() -> None:
    result = run("decode", "--generation", "1", v1.encode(Error(2)).hex())
    assert result.stdout == '{"type":"ERROR","padding":0,"arg0":2,"payload":null}\n'


def test_decode_of_nothing_is_nothing() -> None:
    result = run("decode", "--raw")
    assert (result.exit_code, result.output) == (0, "")


def test_bad_frame_is_told_after_the_frames_before_it() -> None:
    result = run("decode", (OK + OK).hex(), "3412" + "00" * 14)
    assert (result.exit_code, result.stdout) == (1, OK_LINE + OK_LINE)
    assert result.stderr == "gandy: byte 32: bad magic 0x1234, expected 0xc047\n"


def test_bad_payload_is_told_with_its_field() -> None:
    result = run("decode", OK.hex(), "47c003000300000000000000020000009180")
    assert (result.exit_code, result.stdout) == (1, OK_LINE)
    assert result.stderr.startswith("gandy: byte 16: JOB: Object missing required field `Task`")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (OK + OK[:7], "byte 16: the input ends inside a frame: 7 bytes are there, 9 are missing"),
        (OK + JOB[:-3], f"byte 16: the input ends inside a frame: {len(JOB) - 3} bytes are there, 3 are missing"),
    ],
    ids=["header", "payload"],
)
def test_cut_frame_is_told_with_what_is_missing(data: bytes, text: str) -> None:
    result = run("decode", "--raw", data=data)
    assert (result.exit_code, result.stdout, result.stderr) == (1, OK_LINE, f"gandy: {text}\n")


@pytest.mark.parametrize("data", [V1_STREAM, V1_STREAM[:12]], ids=["bad frame", "cut frame"])
def test_hint_tells_the_other_generation(data: bytes) -> None:
    result = run("decode", data.hex())
    assert result.exit_code == 1
    assert result.stderr.endswith("\nhint: the bytes make sense as generation 1\n")


def test_hint_goes_both_ways() -> None:
    result = run("decode", "--generation", "1", (OK + JOB).hex())
    assert result.stderr.endswith("\nhint: the bytes make sense as generation 2\n")


def test_what_is_not_hex_is_a_usage_error() -> None:
    result = run("decode", "47c0", "zz")
    assert result.exit_code == 2
    assert "character 6 is 'z', which is not a hex digit" in result.stderr


def test_bytes_that_are_no_text_are_a_usage_error() -> None:
    result = run("decode", data=b"47\xff")
    assert result.exit_code == 2
    assert r"character 3 is '\udcff'" in result.stderr


def test_raw_takes_no_hex() -> None:
    result = run("decode", "--raw", "47c0")
    assert result.exit_code == 2
    assert "--raw reads standard input" in result.stderr


@pytest.mark.parametrize("words", [("decode",), ("decode", "--raw"), ("encode",)], ids=" ".join)
def test_reading_from_a_terminal_is_told(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CliRunner()
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: stream.name == "<stdin>")
    result = runner.invoke(program, ["wire", *words])
    assert result.exit_code == 0
    assert result.stderr.startswith("gandy: reading from the terminal")


@pytest.mark.parametrize(
    "data",
    [OK, JOB, OK + JOB + v2.encode(5, Hello(4)), v2.encode(9, Update(None)), v2.encode(7, Extended(0x20, b"x"))],
    ids=["OK", "JOB", "several", "empty UPDATE", "extension"],
)
def test_encode_undoes_decode(data: bytes) -> None:
    lines = run("decode", data.hex()).stdout
    assert bytes.fromhex(run("encode", data=lines).stdout) == data
    assert run("encode", "--raw", "-", data=lines).stdout_bytes == data


def test_encode_undoes_decode_of_the_first_generation() -> None:
    lines = run("decode", "--generation", "1", V1_STREAM.hex()).stdout
    assert bytes.fromhex(run("encode", "--generation", "1", data=lines).stdout) == V1_STREAM


def test_encode_prints_a_line_for_each_frame() -> None:
    ok = '{"type": "OK", "seq": 2, "nproc": 17, "nrun": 5}'
    assert run("encode", ok, ok).stdout == run("encode", f"[{ok}, {ok}]").stdout == f"{OK.hex()}\n" * 2


def test_encode_counts_arg0() -> None:
    payload = {"JobId": 1, "Task": 1, "Success": True, "Status": "done"}
    result = run("encode", json.dumps({"type": "UPDATE", "seq": 4, "payload": payload}))
    assert result.stdout.strip() == v2.encode(4, Update(a_result())).hex()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type": "STOP"}', "line 2: STOP needs arg0"),
        ('\n{"type": "OK", "arg0": "1"}', "line 3: not a frame of generation 2: Expected `int | null`, got `str`"),
        ('[{"type": "CANCEL", "payload": [{"JobId": 1}]}]', "line 2, item 1: CANCEL payload: Object missing required"),
        ('{"type": "CANCEL", "arg0": 5, "payload": []}', "line 2: arg0 of CANCEL is 5, but 1 follows"),
    ],
)
def test_bad_object_is_told_with_its_line_after_the_frames_before_it(text: str, message: str) -> None:
    result = run("encode", data='{"type": "OK", "seq": 2, "arg0": 1114117}\n' + text)
    assert (result.exit_code, result.stdout) == (1, OK.hex() + "\n")
    assert result.stderr.startswith(f"gandy: {message}")


def test_what_is_not_json_is_a_usage_error() -> None:
    result = run("encode", '{"type": ')
    assert result.exit_code == 2
    assert "line 1, column 10: Expecting value" in result.stderr


@pytest.mark.parametrize("words", [(), ("decode",), ("encode",)], ids=["wire", "decode", "encode"])
def test_help_has_examples_and_exit_codes(words: tuple[str, ...]) -> None:
    shown = run(*words, "--help").stdout
    assert "Examples:\n    gandy wire" in shown
    assert "Exit codes:\n    0  done\n" in shown
