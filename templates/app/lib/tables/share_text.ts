/** The present view as Markdown, for an issue or a chat. */

import { formatAmount, formatBytes, formatCount, formatShare, plural } from "../text/format"
import type { History } from "../data/history"
import { framesOf } from "../data/device"
import { frameText } from "../data/frames"
import { momentText, totalsAt } from "../data/moment"
import { amountsOf, answerText, type Question } from "../data/questions"

const MOST_SITES = 10

/** The most letters of a text in Markdown, and of code: issue comments are limited. */
const LONGEST = 2000,
  LONGEST_CODE = 400

/** What GitHub turns into links and pictures, up to where a zero-width space breaks it: as in reporters/markdown.py. */
const LINKS = /@(?!\s)|:(?=\/\/)|www(?=\.)|\bGH-(?=\d)|(?<!\w)#(?=\d)|(?<=[\w.-])\/[\w.-]+#(?=\d)|(?<!:):(?=[a-z+-][a-z0-9_+-]*:(?!:))/gi

/** What a view shows, for `viewAsMarkdown`. */
export interface View {
  title: string
  /** What it answers. */
  question: Question
  /** The fragment that opens the same view, or "". */
  fragment: string
  /** Which allocations count, in words; "" where all do. */
  filter: string
  /** The selection: its name and its allocations. */
  selection: { label: string; rows: Uint8Array } | null
}

/** A heading, the totals and the largest call sites at a moment, as GitHub shows it; `history`: of what counts. */
export function viewAsMarkdown(history: History, view: View): string {
  const { device, sites } = history
  const { question } = view
  const { kind, curve, at } = question
  const live = kind === "live"
  const { bytes, count, moved } = amountsOf(device, question, sites.ofAllocation, sites.rows.length)
  const add = (values: ArrayLike<number>) => Array.from(values).reduce((sum, each) => sum + each, 0)
  const [total, whole] = [add(bytes), add(moved)]
  const all = add(amountsOf(history.all.device, question, sites.ofAllocation, sites.rows.length).moved)
  const rows = [...count.keys()].filter((row) => count[row] > 0).sort((a, b) => Math.abs(bytes[b]) - Math.abs(bytes[a]) || a - b)
  const amount = (value: number | null) => (value === null ? "not known" : formatAmount(value, kind === "change"))
  const now = totalsAt(history, at)
  const lines = [
    `**${escaped(view.title)}**, ${escaped(device.id)}: ${amount(total)} ${curve} in ${plural(add(count), "allocation")} ${live ? momentText(history, curve, at) : `${kind === "change" ? "that " : ""}${answerText(question)}`}`,
    "",
    ...(view.filter
      ? [`Only where ${escaped(view.filter)}: ${formatShare(whole, all)} of ${formatBytes(all)} without the filter.`, ""]
      : []),
    ...(device.rest && !live && kind !== "change" ? ["What is not drawn one by one is not counted.", ""] : []),
    ...(live
      ? [
          `allocated ${amount(now.allocated)} \u00b7 requested ${amount(now.requested)}${history.partial ? "" : ` \u00b7 reserved ${amount(now.reserved)} \u00b7 inactive ${amount(now.inactive)}`}`,
          "",
        ]
      : []),
    `| ${curve} | share | count | call site |`,
    "|---:|---:|---:|---|",
    ...rows.slice(0, MOST_SITES).map((row) => {
      const { fullName, name, place } = sites.rows[row]
      return `| ${amount(bytes[row])} | ${formatShare(moved[row], whole)} | ${formatCount(count[row])} | ${code(name || fullName)}${place ? ` ${code(place)}` : ""} |`
    }),
  ]
  if (rows.length > MOST_SITES) {
    const [more, part] = [bytes, moved].map((of) => rows.slice(MOST_SITES).reduce((sum, row) => sum + of[row], 0))
    lines.push(`| ${amount(more)} | ${formatShare(part, whole)} | | ${formatCount(rows.length - MOST_SITES)} more call sites |`)
  }
  if (view.selection) {
    const picked = amountsOf(device, question, view.selection.rows, 2)
    lines.push("", `Selected: ${code(view.selection.label)} with ${amount(picked.bytes[1])} (${formatShare(picked.moved[1], whole)}).`)
  }
  if (view.fragment) lines.push("", `In the report: ${code(`#${view.fragment}`)}`)
  return `${lines.join("\n")}\n`
}

/** A call stack as text, innermost first, one frame per line. */
export function stackAsText(history: History, stack: number): string {
  return framesOf(history.stacks, stack)
    .map((frame) => {
      const { fullName, path } = frameText(history.stacks, frame)
      return oneLine(path ? `${fullName} (${path})` : fullName)
    })
    .join("\n")
}

/** Inline code that is safe for any text: fences longer than its own, no line breaks, no table borders. */
export function code(text: string): string {
  const line = oneLine(text, LONGEST_CODE).replace(/\|/g, "\\|")
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map((run) => run[0].length))
  const fence = "`".repeat(longest + 1)
  const pad = longest > 0 || line.startsWith(" ") || line.endsWith(" ") ? " " : ""
  return line ? `${fence}${pad}${line}${pad}${fence}` : ""
}

function escaped(text: string): string {
  return oneLine(text, LONGEST)
    .trim()
    .replace(LINKS, "$&\u200b")
    .replace(/[\\`*_{}[\]>#|~&!$]|<(?!\d)/g, "\\$&")
}

/** Text for one line: what could end it, drive a terminal it is pasted into, or turn its order round is gone. */
export function oneLine(text: string, limit = Infinity): string {
  const line = text.replace(/[\r\n\t]+/g, " ").replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, "\ufffd")
  return line.length > limit ? `${line.slice(0, limit - 1)}\u2026` : line
}
