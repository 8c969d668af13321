/** Details of what is pinned, an allocation or a failed request: its facts and its call stacks. */

import { framesOf, missingReason, versionsOf } from "../../lib/data/device"
import { formatAddress, formatBytes, formatCount, formatExact } from "../../lib/text/format"
import { frameKind, frameText, isKept, standIn } from "../../lib/data/frames"
import type { History } from "../../lib/data/history"
import { poolText } from "../../lib/data/segments"
import type { Store } from "../../store"
import { lifeText, siteOf, sizeText, stageText, whenText, stripSwatch } from "./describe"
import { stackAsText } from "../../lib/tables/share_text"
import { copyButton } from "./clipboard"
import { button } from "./controls"
import { type Fact, factsList, h, nameText, pathText } from "./dom"

/** What the program said of an allocation: each key of a mapping, and each line of other text. */
export function metadataFacts(text: string): Fact[] {
  return text.split("\n").flatMap((line): Fact[] => {
    try {
      const fields: unknown = line.startsWith("{") ? JSON.parse(line) : null
      if (fields) return Object.entries(fields).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)])
    } catch {
      // Not JSON after all.
    }
    return [["Metadata", line]]
  })
}

/** The panel's content for one failed request; `go` shows another one. */
export function oomDetails(history: History, at: number, go: (oom: number) => void, close: () => void): HTMLElement {
  const oom = history.ooms[at]
  const count = history.ooms.length
  const amount = (label: string, bytes: number | null): Fact =>
    bytes === null ? [label, "not known"] : [label, formatBytes(bytes), formatExact(bytes)]
  const step = (label: string, to: number) => button(label, null, () => go(to), { disabled: !(to in history.ooms) })
  return h(
    "div.details",
    { "data-oom": at },
    h("header", h("h3.danger", "Out of memory"), closeButton(close)),
    count > 1 &&
      h(
        "p.several",
        `${formatCount(at + 1)} of ${formatCount(count)} failed requests `,
        step("Previous", at - 1),
        " ",
        step("Next", at + 1),
      ),
    factsList([
      amount("Asked for", oom.size),
      amount("Free on device", oom.device_free),
      amount("Allocated then", oom.allocated),
      amount("Reserved then", oom.reserved),
      ["At", whenText(history, oom.event)],
    ]),
    stackView(history, "Call stack", oom.stack, "No call stack was recorded for this request."),
  )
}

/** The panel's content for one allocation. */
export function details(store: Store, allocation: number, close: () => void): HTMLElement {
  const { history } = store
  const { device, stacks } = history
  const life = lifeText(history, allocation)
  const site = siteOf(history, allocation)
  const { strings } = stacks
  const [role, evidence] = device.roles[device.role[allocation]]
  const [requested, block, most] = [device.requested[allocation], device.block[allocation], device.blockMax[allocation]]
  const facts: Fact[] = [
    ["Role", role, device.roleMeanings[role]],
    ["Known by", evidence],
    ["Block", most > block ? `${formatBytes(block)} to ${formatBytes(most)}` : formatBytes(block), formatExact(block)],
    ["Requested", formatBytes(requested), formatExact(requested)],
    ["Slack", formatBytes(block - requested), formatExact(block - requested)],
    ["Allocated", life.from],
    ["Free requested", ended(history, device.freeRequestedEvent[allocation])],
    ["Free completed", ended(history, device.freeEvent[allocation])],
    ["Lifetime", life.length],
    ["Address", `${formatAddress(device.addrValues[device.addr[allocation]])} v${versionsOf(device)[allocation]}`],
    ["Stream", streamText(device.streamValues[device.stream[allocation]])],
  ]
  if (device.pool[allocation] >= 0) facts.push(["Pool", poolText(device, device.pool[allocation])])
  for (const [label, column] of [
    ["Category", device.category],
    ["Compiled in", device.compileContext],
    ["Gradient of", device.labels["forward"]],
  ] as const) {
    if (column && column[allocation] >= 0) facts.push([label, strings[column[allocation]]])
  }
  const stage = stageText(history, allocation)
  const metadata = device.metadata[allocation]
  /** What the program itself says of it: that is looked for first. */
  const own: Fact[] = [...(stage ? [["Stage", stage] satisfies Fact] : []), ...(metadata < 0 ? [] : metadataFacts(strings[metadata]))]
  return h(
    "div.details",
    { "data-allocation": allocation },
    h("header", h("h3", stripSwatch(store, allocation), h("code", { title: site.fullName }, nameText(site.name))), closeButton(close)),
    h("p.place", site.place),
    h("p.in-short", [sizeText(history, allocation), role].join(", ")),
    own.length > 0 && factsList(own),
    stackView(history, "Call stack", device.stack[allocation], missingReason(device, allocation)),
    folded("Sizes, lifetime, address and more", factsList(facts)),
    device.freeStack[allocation] >= 0 &&
      device.freeStack[allocation] !== device.stack[allocation] &&
      folded("Where it was freed", stackView(history, "Freed at", device.freeStack[allocation], "")),
  )
}

/** The titles of what the reader has opened: they are open for the next allocation, too. */
const opened = new Set<string>()

function folded(title: string, content: HTMLElement): HTMLElement {
  const element = h(
    "details",
    { open: opened.has(title), toggle: () => (element.open ? opened.add(title) : opened.delete(title)) },
    h("summary", title),
    content,
  )
  return element
}

function closeButton(close: () => void): HTMLElement {
  return button("\u00d7", "Close details (Escape)", close, { class: "close" })
}

function ended(history: History, event: number): string {
  if (event >= history.device.events) return "not in this recording"
  return event < 0 ? "before the recording" : whenText(history, event)
}

function streamText(stream: number): string {
  return stream === 0 ? "0 (default)" : formatAddress(stream)
}

/** One call stack, innermost first: runs of frames that the call tree hides are folded, but for the one that names it. */
export function stackView(history: History, title: string, stack: number, reason: string): HTMLElement {
  const { stacks } = history
  const frames = framesOf(stacks, stack)
  if (!frames.length) return h("section.stack", h("h4", title), h("p.empty", reason || "No frames."))
  const list = h("ol.frames")
  const naming = frames.some((frame) => isKept(stacks, frame))
    ? -1
    : frames.find((frame) => standIn(stacks, frame) === stacks.stackSite[stack])
  const isFolded = (frame: number) => !isKept(stacks, frame) && frame !== naming
  for (let k = 0; k < frames.length;) {
    let end = k
    while (end < frames.length && isFolded(frames[end])) end++
    if (end - k > 1) {
      const inner = frames.slice(k, end)
      const unfold = () => item.replaceWith(...inner.map((frame) => frameItem(history, frame)))
      const item = h("li.folded", button(`${formatCount(inner.length)} runtime frames`, null, unfold, { "aria-expanded": "false" }))
      list.append(item)
      k = end
    } else list.append(frameItem(history, frames[k++]))
  }
  const copy = copyButton("Copy", `Copy this call stack as text: ${title}`, () => stackAsText(history, stack))
  return h("section.stack", h("div.stack-head", h("h4", title), copy), list)
}

function frameItem(history: History, frame: number): HTMLElement {
  const text = frameText(history.stacks, frame)
  return h(
    "li",
    { class: frameKind(history.stacks, frame) },
    h("code", { title: text.fullName }, nameText(text.name)),
    text.path && h("span", pathText(text.path)),
    text.code && h("span.code", text.code),
  )
}
