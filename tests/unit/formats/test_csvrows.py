"""Tables with a header."""

from __future__ import annotations

from stores import row
from tables import each_row

from rltop.formats.csv import CsvDecoder
from rltop.model import NonFinite


def decode(text, decoder=None, **options):
    decoder = decoder or CsvDecoder(**options)
    records = decoder.feed(text.encode(), 0, 0)
    return [*records, *decoder.finish()], decoder


@each_row("delimiter", [",", ";", "\t"])
@each_row("end", ["\n", "\r\n"])
def test_rows_under_a_header(delimiter, end):
    text = (
        end.join(delimiter.join(cells) for cells in (("step", "loss", "lr"), ("1", "0.5", "1e-5"), ("2", "nan", "")))
        + end
    )
    (one, two), decoder = decode(text)
    assert (one.step, row(one)) == (1, {"loss": 0.5, "lr": 1e-5})
    assert (two.step, two.schema.keys) == (2, ("loss",))
    assert two.marks[0].kind is NonFinite.NAN
    assert decoder.counts.rows == 2


@each_row("delimiter", [";", "\t"])
def test_decimal_commas_where_no_comma_separates_cells(delimiter):
    lines = "step;loss;lr;note", "1;0,5;1,5e-5;a, b", "2;-,25;3;1,2,3"
    records, decoder = decode("".join(f"{line}\n".replace(";", delimiter) for line in lines))
    assert [row(record) for record in records] == [{"loss": 0.5, "lr": 1.5e-5}, {"loss": -0.25, "lr": 3.0}]
    assert decoder.counts.text_values == 2


def test_a_row_of_decimal_commas_is_no_header():
    records, _ = decode("a;b\n0,5;0,25\n0,75;0,125\n")
    assert [row(record) for record in records] == [{"a": 0.5, "b": 0.25}, {"a": 0.75, "b": 0.125}]


def test_an_empty_cell_is_no_key_of_the_row():
    records, _ = decode("epoch,loss,step,val_loss\n0,0.5,9,\n0,,9,0.4\n")
    assert [record.schema.keys for record in records] == [("epoch", "loss"), ("epoch", "val_loss")]


def test_a_split_keeps_held_out_numbers_apart():
    records, _ = decode("step,split,loss\n3,train,0.5\n3,validation,0.9\n")
    assert [row(record) for record in records] == [{"loss": 0.5}, {"eval/loss": 0.9}]


def test_a_quoted_cell_may_hold_line_feeds_and_commas():
    (record,), decoder = decode('step,hist,loss\n1,"[1.0, 2.0\n 3.0, ""x""]",0.5\n')
    assert row(record) == {"loss": 0.5}
    assert decoder.counts.text_values == 1
    assert decoder.counts.bad_lines == 0


def test_a_table_without_steps_is_numbered():
    records, _ = decode("loss,reward\n0.5,1\n0.4,2\n")
    assert [record.step for record in records] == [1, 2]


@each_row("key", ["total/steps", "misc/total_timesteps", "TotalEnvInteracts", "TimestepsSoFar"])
def test_the_steps_of_the_environment_are_the_step_of_classic_tables(key):
    decoder = CsvDecoder()
    rows = "".join(f"{at},{2000 * at},-1.5\n" for at in range(1, 4))
    records = decoder.feed(f"total/epochs,{key},rollout/return\n{rows}".encode(), 0, 0)
    assert [record.step for record in records] == [2000, 4000, 6000]
    assert not decoder.counts.numbered_rows


def test_a_row_without_its_step_is_counted():
    records, decoder = decode("step,loss\n,0.5\n2,0.4\n")
    assert [record.step for record in records] == [2]
    assert decoder.counts.no_step_lines == 1


def test_the_step_column_that_was_asked_for():
    (record,), _ = decode("step,update,loss\n256,1,0.5\n", step_key="update")
    assert (record.step, row(record)) == (1, {"step": 256.0, "loss": 0.5})


def test_a_half_last_row_is_held_back():
    decoder = CsvDecoder()
    assert [r.step for r in decoder.feed(b"step,loss,lr\n1,0.5,1\n2,0.", 0, 0)] == [1]
    assert [r.step for r in decoder.feed(b"25,2\n", 25, 0)] == [2]


def test_a_half_last_row_at_the_end_is_cut_off():
    records, decoder = decode("step,loss,lr\n1,0.5,1\n2,0.")
    assert [record.step for record in records] == [1]
    assert decoder.counts.bad_lines == 1


def test_the_last_cell_without_an_end_is_not_believed():
    records, _ = decode("step,loss,lr\n1,0.5,1\n2,0.4,1.2")
    assert row(records[1]) == {"loss": 0.4}


def test_a_rewrite_with_one_more_column_gives_only_what_is_new():
    decoder = CsvDecoder()
    decoder.feed(b"step,loss\n1,0.5\n2,0.4\n", 0, 0)
    decoder.reset()
    records = decoder.feed(b"eval,loss,step\n,0.5,1\n,0.4,2\n0.9,0.3,3\n", 0, 1)
    assert [(record.step, row(record)) for record in records] == [(3, {"eval": 0.9, "loss": 0.3})]
    assert decoder.counts.rows == 3


def test_another_run_in_the_same_file_is_new():
    decoder = CsvDecoder()
    decoder.feed(b"step,loss\n1,0.5\n2,0.4\n", 0, 0)
    decoder.reset()
    assert [record.step for record in decoder.feed(b"step,loss\n1,0.7\n", 0, 1)] == [1]


def test_a_header_in_the_middle_is_a_header():
    records, decoder = decode("step,loss\n1,0.5\nstep,reward\n2,3\n")
    assert [row(record) for record in records] == [{"loss": 0.5}, {"reward": 3.0}]
    assert decoder.counts.bad_lines == 0


def test_a_comment_above_the_header_is_passed_over():
    (record,), _ = decode('#{"t_start": 1.5}\nstep,r\n1,2\n')
    assert row(record) == {"r": 2.0}


@each_row("line", ["1,0.5,3,4,5", "1,\x00"])
def test_what_is_no_row(line):
    records, decoder = decode(f"step,loss\n{line}\n2,0.4\n")
    assert records[-1].step == 2
    assert decoder.counts.bad_lines + decoder.counts.nul_bytes == 1


def test_a_quote_that_is_never_closed_gives_up():
    decoder = CsvDecoder()
    decoder.feed(b'step,loss\n1,"0.5\n', 0, 0)
    row = b"1,0.5" + b"0" * 95 + b"\n"
    for number in range(5):
        decoder.feed(row * 10_000, 18 + number * 10_000 * len(row), 0)
    assert decoder.counts.bad_lines == 1
    assert decoder.counts.rows > 0


@each_row("rows", [1, 19, 20, 60])
def test_a_stray_quote_costs_its_own_line_only(rows):
    after = "".join(f"{step},0.4\n" for step in range(3, rows + 3))
    text = f'step,loss\n1,0.5\n2,"0.5\n{after}'
    records, decoder = decode(text)
    assert [record.step for record in records] == [1, *range(3, rows + 3)]
    assert all(text[one.position.offset :].startswith(f"{one.step},") for one in records)
    counts = decoder.counts
    assert (counts.bad_lines, counts.first_bad_line, counts.first_bad_reason) == (1, 3, "unclosed quote")


@each_row("between", [0, 1, 18])
def test_two_stray_quotes_that_pair_up_cost_the_first_line_only(between):
    strays, quote = (2, between + 3), '"'
    rows = "".join(f"{step},0.5,{quote * (step in strays)}ok\n" for step in range(1, 30))
    records, decoder = decode(f"step,loss,note\n{rows}")
    assert [record.step for record in records] == [1, *range(3, 30)]
    counts = decoder.counts
    assert (counts.bad_lines, counts.first_bad_line, counts.first_bad_reason) == (1, 3, "unclosed quote")


@each_row("cell", ['"a\n2,0.4,""b"', '"a\n2,0.4,b"'])
def test_a_cell_whose_quotes_close_is_one_whatever_is_in_it(cell):
    records, decoder = decode(f"step,loss,note\n1,0.5,{cell}\n3,0.3,c\n")
    assert [record.step for record in records] == [1, 3]
    assert decoder.counts.bad_lines == 0


def test_a_quoted_table_within_a_cell_is_no_row():
    table = "".join(f"{step},a\n" for step in range(19))
    (one, two), decoder = decode(f'step,text\n1,"{table}end"\n2,b\n')
    assert (one.step, two.step, decoder.counts.bad_lines) == (1, 2, 0)


def test_rows_that_are_numbered_are_counted_and_so_is_a_step_that_cannot_be_one():
    decoder = CsvDecoder()
    decoder.feed(b"loss,reward\n1,2\n3,4\n", 0, 0)
    assert (decoder.counts.numbered_rows, decoder.counts.unusable_steps) == (2, 0)
    decoder = CsvDecoder()
    decoder.feed(b"step,loss\n1,2\n1000000000000000001,4\n3,4\n", 0, 0)
    assert (decoder.counts.numbered_rows, decoder.counts.unusable_steps, decoder.counts.no_step_lines) == (0, 1, 1)


def test_a_step_that_stays_0_gives_way_to_that_of_the_writer() -> None:
    records, _ = decode("step,_step,loss\n" + "".join(f"0,{at},0.5\n" for at in range(6)))
    assert [record.step for record in records] == [0, 0, 0, 3, 4, 5]


def test_rows_of_the_end_have_the_names_of_the_head():
    decoder = CsvDecoder(may_count_rows=False)
    decoder.take_head(b"step,note,loss\n1,a,0.5\n2,b,0.4\n3,c")
    # A line that stands inside quotes is no row, although the quotes in it are even and the cells enough.
    tail = b'said ""yes"", and no\n9,""loud"" talk\nthe end",0.25\n100,d,0.1\n101,"two\nlines",0.2\n'
    records = decoder.feed(tail, 5_000, 0)
    assert [(record.step, row(record)) for record in records] == [(100, {"loss": 0.1}), (101, {"loss": 0.2})]


def test_a_table_without_steps_has_no_rows_that_can_be_read_from_its_end():
    decoder = CsvDecoder(may_count_rows=False)
    decoder.take_head(b"loss,lr\n0.5,1\n")
    assert decoder.feed(b"0.4,1\n0.3,1\n", 5_000, 0) == []


def test_a_file_that_begins_anew_has_its_own_names():
    decoder = CsvDecoder(may_count_rows=False)
    decoder.take_head(b"step,loss\n1,0.5\n")
    (last,) = decoder.feed(b"9,0.1\n", 5_000, 0)
    decoder.reset()
    (first,) = decoder.feed(b"step,reward\n1,2.5\n", 0, 1)
    assert (last.step, row(last), first.step, row(first)) == (9, {"loss": 0.1}, 1, {"reward": 2.5})


def test_the_length_of_an_episode_is_no_step_of_the_run() -> None:
    text = b"episode,reward,steps\n1,0.5,50\n2,0.25,12\n3,0.75,50\n"
    records = [*(decoder := CsvDecoder()).feed(text, 0, 0), *decoder.finish()]
    assert [record.step for record in records] == [1, 2, 3]
    assert all("steps" in record.schema.keys for record in records)
    asked = [*(decoder := CsvDecoder("steps")).feed(text, 0, 0), *decoder.finish()]
    assert [record.step for record in asked] == [50, 12, 50]
    counted = [*(decoder := CsvDecoder()).feed(b"steps,episodes,reward\n100,2,0.5\n200,4,0.5\n", 0, 0)]
    assert [record.step for record in counted] == [100, 200]
