from dataclasses import replace

import pandas as pd
import pytest

from hypermask.typesetting import BLANK, Table, _latex, fixed, plus_minus, rounded

TABLE = Table(
    title="Table 9. Shares",
    label="shares",
    frame=pd.DataFrame({"method": ["A_1", "B", "C"], "share": [5.0, -0.5, None]}),
    head=("Method", "Network", "Share, %"),
    body=(("A_1", BLANK, "5.0"), ("B", "", "-0.5 †"), ("C", "", BLANK)),
    rules=(1,),
    notes=("A note & more.",),
    text_columns=2,
)


def test_markdown():
    assert TABLE.markdown() == (
        "**Table 9. Shares**\n\n"
        "| Method | Network | Share, % |\n| --- | --- | ---: |\n"
        "| A_1 | – | 5.0 |\n| B |  | -0.5 † |\n| C |  | – |\n\nA note & more.\n"
    )


def test_latex():
    assert TABLE.latex() == (
        "% needs the package booktabs\n\\begin{table}\n\\centering\\footnotesize\n"
        "\\caption{Shares. A note \\& more.}\n\\label{tab:shares}\n\\begin{tabular}{@{}llr@{}}\n\\toprule\n"
        "Method & Network & Share, \\% \\\\\n\\midrule\nA\\_1 & -- & 5.0 \\\\\n\\midrule\n"
        "B &  & $-$0.5 $\\dagger$ \\\\\nC &  & -- \\\\\n\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )


def test_text_has_the_columns_with_content_and_the_notes():
    assert TABLE.text().splitlines() == [
        "Table 9. Shares",
        "----------------",
        "Method  Share, %",
        "----------------",
        "A_1          5.0",
        "----------------",
        "B         -0.5 †",
        "C              –",
        "",
        "A note & more.",
    ]


def test_notes_are_wrapped_in_plain_text():
    notes = (" ".join(["word"] * 40), "Another.")
    lines = replace(TABLE, notes=notes).text().splitlines()[9:]
    assert (" ".join(lines), lines[-1]) == (" ".join(notes), "Another.")
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("before", range(110, 121))
def test_a_number_and_its_percent_sign_stay_on_one_line(before):
    note = f"{'a' * before} 95 % interval"
    lines = replace(TABLE, notes=(note,)).text().splitlines()[9:]
    assert " ".join(lines) == note
    assert sum("95 %" in line for line in lines) == 1
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("form", ["markdown", "latex", "text"])
def test_a_mark_stands_in_the_first_line(form):
    assert "smoke profile" in getattr(TABLE.marked("smoke profile"), form)().splitlines()[0]


def test_a_zero_has_no_sign():
    assert [fixed(value, 2) for value in (-0.004, 0.004, -0.006)] == ["0.00", "0.00", "-0.01"]
    assert [fixed(value, 2, "+") for value in (-0.004, 0.004, 0.006)] == ["0.00", "0.00", "+0.01"]
    assert plus_minus(-0.0001, 0.0, 3) == "0.000 ± 0.000"


def test_no_value_is_blank_and_no_spread_is_left_out():
    assert (rounded(None, 2), rounded(1.005, 1)) == (BLANK, "1.0")
    assert (plus_minus(1.0, None, 2), plus_minus(1.0, 0.25, 1, 2)) == ("1.00", "1.0 ± 0.25")


def test_latex_has_minus_signs_and_hyphens():
    assert _latex("-0.5 / -1.25") == "$-$0.5 / $-$1.25"
    assert _latex("D(1,10) - D(1,2)") == "D(1,10) $-$ D(1,2)"
    assert _latex("HyperMask-T, hypernetwork 200-200") == "HyperMask-T, hypernetwork 200-200"
