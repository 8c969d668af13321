import assert from "node:assert/strict"
import { test } from "node:test"
import { History } from "../data/history"
import { liveQuestion } from "../data/questions"
import { code, oneLine, stackAsText, viewAsMarkdown } from "./share_text"
import { deviceOf, stacksOf } from "../testing"

const strips = { events: 4, birth: Int32Array.of(-1, 0, 1), death: Int32Array.of(4, 3, 4), height: Float64Array.of(1024, 3072, 4096) }
const stacks = stacksOf([
  [
    ["aten::empty", "??"],
    ["make", "/a/model.py"],
  ],
  [["ev|il`<b>", "/a/x.py"]],
])
const device = deviceOf(strips, [-1, 0, 1])
device.summary.recorded = true
device.summary.reserved_from = 2

test("a view becomes a table of the call sites at its moment", () => {
  const history = new History(device, stacks)
  const text = viewAsMarkdown(history, {
    title: "run<1>",
    question: liveQuestion("allocated", 1),
    fragment: "event=1",
    filter: "",
    selection: { label: "make", rows: Uint8Array.of(0, 1, 0) },
  })
  assert.deepEqual(text.split("\n"), [
    "**run<1\\>**, cuda:0: 8.00 KiB allocated in 3 allocations at the peak (event 1)",
    "",
    "allocated 8.00 KiB \u00b7 requested 8.00 KiB \u00b7 reserved not known \u00b7 inactive not known",
    "",
    "| allocated | share | count | call site |",
    "|---:|---:|---:|---|",
    "| 4.00 KiB | 50.0% | 1 | `` ev\\|il`<b> `` `x.py:7` |",
    "| 3.00 KiB | 37.5% | 1 | `make` `model.py:7` |",
    "| 1.00 KiB | 12.5% | 1 | `before recording` |",
    "",
    "Selected: `make` with 3.00 KiB (37.5%).",
    "",
    "In the report: `#event=1`",
    "",
  ])
})

test("a view of a change has signs, and shares of what moved", () => {
  const history = new History(device, stacks)
  const question = { ...liveQuestion("allocated", 3), kind: "change" as const, from: 0, to: 3, alive: 3 }
  const lines = viewAsMarkdown(history, { title: "run", question, fragment: "", filter: "", selection: null }).split("\n")
  assert.deepEqual(lines.slice(0, 6), [
    "**run**, cuda:0: +1.00 KiB allocated in 2 allocations that came or went between event 0 and event 3",
    "",
    "| allocated | share | count | call site |",
    "|---:|---:|---:|---|",
    "| +4.00 KiB | 57.1% | 1 | `` ev\\|il`<b> `` `x.py:7` |",
    "| \u22123.00 KiB | 42.9% | 1 | `make` `model.py:7` |",
  ])
})

test("a call stack is text, innermost first", () => {
  assert.equal(stackAsText(new History(device, stacks), 0), "aten::empty\nmake (/a/model.py:7)")
})

test("code keeps any text in its place", () => {
  assert.equal(code("a`b``c"), "``` a`b``c ```")
  assert.equal(code("x\ny|z"), "`x y\\|z`")
})

test("a title in Markdown calls nobody, links nowhere and is one line", () => {
  const history = new History(device, stacks)
  const title = "@me #12 o/r#3 GH-4 https://x www.x ![i](u) :fire: \u202e\x1b[2J\n# x $y$"
  const [line] = viewAsMarkdown(history, {
    title,
    question: liveQuestion("allocated", 1),
    fragment: "",
    filter: "",
    selection: null,
  }).split("\n")
  assert.equal(
    line.split(", cuda:0")[0],
    "**@\u200bme \\#\u200b12 o/r\\#\u200b3 GH-\u200b4 https:\u200b//x www\u200b.x \\!\\[i\\](u) :\u200bfire: \ufffd\ufffd\\[2J \\# x \\$y\\$**",
  )
})

test("with some allocations left out, the view is of the others and says so", () => {
  const all = new History(device, stacks)
  const some = all.without(Uint8Array.of(0, 1, 0))
  const text = viewAsMarkdown(some, {
    title: "run",
    question: liveQuestion("allocated", 1),
    fragment: "",
    filter: "call site is not make model.py:7",
    selection: null,
  })
  assert.deepEqual(text.split("\n").slice(0, 9), [
    "**run**, cuda:0: 5.00 KiB allocated in 2 allocations at the peak (event 1)",
    "",
    "Only where call site is not make model.py:7: 62.5% of 8.00 KiB without the filter.",
    "",
    "allocated 5.00 KiB \u00b7 requested 5.00 KiB",
    "",
    "| allocated | share | count | call site |",
    "|---:|---:|---:|---|",
    "| 4.00 KiB | 80.0% | 1 | `` ev\\|il`<b> `` `x.py:7` |",
  ])
})

test("text for a clipboard is one calm line, with an end", () => {
  assert.equal(oneLine("a\r\nb\tc\u2028d\x9b\u200f"), "a b c\ufffdd\ufffd\ufffd")
  assert.equal(code("x".repeat(1000)).length, 402)
})
