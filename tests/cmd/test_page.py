# SPDX-License-Identifier: MIT
"""autograph report --html: the page."""
import html.parser
import re

import pytest

import helpers
import tracefiles
from commands import message
from test_report_command import DUEL, NOTHING, first_format, second_format, shown, third_format  # noqa: F401


class Page(html.parser.HTMLParser):
    """Checks that every element ends where it should, and that nothing is loaded."""
    VOID = {"meta", "hr", "line"}

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.tags, self.styles = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.open and self.open[-1] == "style":
            self.styles.append(data)


def test_the_page(shown, tmp_path):
    tracefiles.example(pid=77).write(tmp_path / "t")
    done = shown(third_format(gpus=["NVIDIA H200"]), "--html", tmp_path / "p.html", "--trace", tmp_path / "t")
    assert done.stdout == f"{tmp_path}/p.html: open it in a browser\n"
    text = (tmp_path / "p.html").read_text()
    page = Page(text)
    assert {t for t, _ in page.tags} & {"script", "link", "img", "iframe", "object"} == set()
    assert "http" not in text and "url(" not in text and "@import" not in text
    assert "prefers-color-scheme: dark" in page.styles[0]
    for words in ("90.0 %", "30 a::step<float>, 2 memset", "cuMemcpyHtoDAsync",
                  "load + 0x34 in solver", "step <b>", "Timeline"):
        assert words in page.words, words
    bars = [a["style"] for t, a in page.tags if t == "i"]
    assert "width:100.0%" in bars and "width:50.0%" in bars and "width:80.0%" in bars
    kinds = [a["class"] for t, a in page.tags if t == "rect"]
    assert {"good", "held", "eager", "call"} == set(kinds)
    for tag, a in page.tags:
        if tag == "rect":
            assert 0 <= float(a["x"]) <= 1000 and float(a["width"]) >= 0, a


def test_the_page_answers_in_ten_seconds(shown, tmp_path):
    """The program's name, the verdict and three tiles come before everything else; advice is given once."""
    tracefiles.example(pid=77).write(tmp_path / "t")
    shown(third_format(**DUEL, cuts=[
        {"function": "cuMemcpyHtoDAsync_v2", "reason": "stream_barrier", "calls": 9, "ops": 50000}]),
          "--html", tmp_path / "p", "--trace", tmp_path / "t")
    text = (tmp_path / "p").read_text()
    assert "<title>solver - autograph report</title>" in text and "<h1>solver</h1>" in text
    top, *others = text.split("<body>")[1].split("<h2>")
    assert "That saved about 900 ms (873 to 927 ms), 30.0 % of the time without" in top
    assert re.findall("<b>(.*?)</b><small>(.*?)</small>", top) == [
        ("1.43x", "1.42x to 1.44x"), ("90.0 %", "of 1,000,000 operations"),
        ("900 ms", "873 to 927 ms; 30.0 % of the time without")]
    assert text.count("cudaMallocHost(&amp;buffer, bytes);") == text.count("pin the memory") == 1
    assert [part.split("<")[0] for part in others[:4]] == [
        "Where the operations went", "What stands in the way", "Where calls that end graphs come from", "Timeline"]


def test_the_page_explains_its_words_colours_and_blanks(shown, tmp_path):
    tracefiles.example(pid=77).write(tmp_path / "t")
    shown(third_format(eager_ops={"first_rounds": 1, "trials": 1, "unwatched": 1}, duels=1, duels_lost=0,
                       ops={"total": 2000, "replayed": 900, "eager": 1100},
                       cuts=[{"function": None, "reason": "watchdog", "calls": 1, "ops": 100}]),
          "--html", tmp_path / "p", "--trace", tmp_path / "t")
    text = (tmp_path / "p").read_text()
    hover = dict((b, a) for a, b in re.findall('<abbr title="([^"]+)">([^<]+)</abbr>', text))
    assert {"Faster", "In graphs", "Time saved", "operations", "graphs", "replayed", "first rounds", "trials",
            "not watched", "not repeated", "stream", "kind", "graph launches", "patches", "region", "samples", "trial",
            "side exits", "held, then one by one", "eager", "calls", "blank", "sequence", "watchdog"} <= set(hover)
    assert all(len(means) > 20 for means in hover.values())
    classes = set(re.findall('<rect [^>]*class="([a-z]+)"', text)) | {"blank"}
    assert classes == set(re.findall('<li><span class="key ([a-z]+)"></span><abbr', text.split("Timeline")[1]))


def test_the_page_is_for_a_phone_the_dark_and_paper(shown, tmp_path):
    """Nothing has a width in pixels, so it fits; on paper it is light."""
    shown(third_format(), "--html", tmp_path / "p")
    style = re.search("(?s)<style>(.*)</style>", (tmp_path / "p").read_text())[1]
    assert not re.search(r"(?<!-)width: \d+px", style) and "(max-width: 40rem)" in style
    names = "back", "text", "good", "held", "eager", "call", "rest"
    colours = {name: re.findall(rf"--{name}: (#\w+)", style) for name in names}
    for name, (light, dark, paper) in colours.items():
        assert light == paper != dark, name
    assert style.index("@media (prefers-color-scheme: dark)") < style.index("@media print")


def test_the_page_of_a_run_that_did_nothing(shown, tmp_path):
    shown(third_format(ops=NOTHING, cuts=[], streams=[], trace_list=[], callsites=[], regions=[], replays=0),
          "--html", tmp_path / "p")
    text = (tmp_path / "p").read_text()
    assert "launched nothing that the library could see" in text and "autograph doctor ./app" in text
    assert "Nothing was launched." in text and "Timeline" not in text


def test_the_timeline_says_why_an_op_was_eager(shown, tmp_path):
    """On hover, in a sentence: also why held ops went out."""
    eager, held = helpers.reasons("WHY"), helpers.reasons("REASON")
    w = tracefiles.Writer(pid=77).function(1, "k").stream(1).kernel(1, why=[*eager].index("pageable"))
    w.kernel(1, took=None).submit(1, 0, reason=[*held].index("host_wait")).kernel(1).end().write(tmp_path / "t")
    shown(third_format(), "--html", tmp_path / "p", "--trace", tmp_path / "t")
    text = html.unescape((tmp_path / "p").read_text())
    assert f"eager, pageable ({eager['pageable']})" in text
    assert text.count(f"host wait ({held['host_wait']})") == 2


def test_the_page_finds_the_reports_own_trace(shown, tmp_path):
    path = tracefiles.example(pid=77).write(tmp_path / "t")
    own = {"file": str(path), "bytes": 1, "lost": 0, "error": None}
    shown(second_format(trace_file=own), "--html", tmp_path / "p")
    assert "<svg" in (tmp_path / "p").read_text()
    shown(second_format(trace_file=own, pid=78), "--html", tmp_path / "p")
    assert "<svg" not in (tmp_path / "p").read_text(), "it is that of another process"


@pytest.mark.parametrize("data", [
    first_format(), first_format(ops={"total": 0, "replayed": 0, "eager": 0}),
    second_format(streams=[], trace_list=[], cuts=[], regions=[], callsites=[], trace_file=None)])
def test_pages_of_little(shown, tmp_path, data):
    shown(data, "--html", tmp_path / "p")
    Page((tmp_path / "p").read_text())


def test_names_cannot_become_markup(shown, tmp_path):
    evil = "<script>alert(1)</script>"
    data = second_format(program=evil)
    data["trace_list"][0]["kernels"][0]["name"] = data["cuts"][0]["function"] = evil
    data["callsites"][0]["frames"][0]["module"] = evil
    data["regions"][0]["name"] = evil
    data["options"] = {evil: evil}
    shown(data, "--html", tmp_path / "p")
    assert "<script" not in (tmp_path / "p").read_text()


def test_a_page_that_cannot_be_written(shown):
    assert "No such file" in message(shown(first_format(), "--html", "/no/such/p", status=2))
