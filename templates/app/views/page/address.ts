/** Keeps the view in the page's address, and restores it from there. */

import { KINDS } from "../../lib/data/questions"
import { colouringsOf, groupBy, NO_FILTERS, whyPlain, withFilter } from "../../lib/tables/grouping"
import { decodeLink, encodeLink, type Link, type Rows } from "../../lib/text/link"
import { originsOf } from "../../lib/data/origins"
import { drawnRow, recordedRow } from "../../lib/data/rest"
import { CallTree, ROOT } from "../../lib/tables/tree"
import { directionOf, parseKey, STACK_MODES, type StacksView, WHOLE_TREE } from "../../lib/tables/tree_model"
import { sameWindow } from "../../lib/picture/window"
import { NO_MARKERS, type State, type Store } from "../../store"
import { tabsOf } from "../panels/panels"

const WAIT_MS = 250

/** The parts of the view that differ from what the page opens with. */
export function linkOf(store: Store, device: number | undefined): Link {
  const { state: s } = store
  const selection = s.selection ? `${s.selection.panel}:${s.selection.key}` : undefined
  const implied = impliedView(selection)
  return {
    device,
    axis: s.axis === "events" ? undefined : s.axis,
    window: sameWindow(s.window, store.opens) ? undefined : [s.window.x0, s.window.x1, s.window.y0, s.window.y1],
    curve: s.curve === "allocated" ? undefined : s.curve,
    cursor: s.cursor === store.opening(s.curve) ? undefined : s.cursor,
    colouring: s.colouring === store.colouring ? undefined : s.colouring,
    ...leftOut(store),
    pinned: s.pinned < 0 ? undefined : recordedRow(store.history.device, s.pinned),
    oom: s.pinnedOom < 0 ? undefined : s.pinnedOom,
    a: s.markers.a ?? undefined,
    b: s.markers.b ?? undefined,
    c: s.markers.c ?? undefined,
    ask: s.question === "live" || s.question === "change" ? undefined : s.question,
    tab: s.tab === "stacks" ? undefined : s.tab,
    search: s.search,
    stacks: s.stacks.mode === implied.mode ? undefined : s.stacks.mode,
    frames: s.stacks.folded === implied.folded ? undefined : s.stacks.folded ? "folded" : "all",
    focus: s.stacks.top === ROOT ? undefined : s.stacks.top,
    selection,
  }
}

/** For each filter what is left out, or what is not: the shorter list. */
function leftOut({ history, state }: Store): Pick<Link, "only" | "without"> {
  const [only, without]: [Rows, Rows] = [new Map(), new Map()]
  for (const [colouring, out] of state.filters) {
    const kept = [...groupBy(history, colouring).groups.keys()].filter((row) => !out.has(row))
    if (kept.length && kept.length < out.size) only.set(colouring, kept)
    else
      without.set(
        colouring,
        [...out].sort((a, b) => a - b),
      )
  }
  return { only: only.size ? only : undefined, without: without.size ? without : undefined }
}

/** The colouring and the filters; what the page does not offer is ignored. */
function colours({ history, colouring }: Store, link: Link): Pick<State, "colouring" | "filters"> {
  const offers = (wanted: string) => colouringsOf(history.device).some(([name]) => name === wanted && !whyPlain(history, name))
  const wanted = link.colouring ?? colouring
  let filters = NO_FILTERS
  for (const [keeps, rows] of [
    [true, link.only],
    [false, link.without],
  ] as const)
    for (const [name, some] of rows ?? []) {
      if (name !== colouring && !offers(name)) continue
      const all = [...groupBy(history, name).groups.keys()]
      const named = new Set(some)
      const out = all.filter((row) => named.has(row) !== keeps)
      if (out.length < all.length) filters = withFilter(history, filters, name, out) // else it is about another recording
    }
  return { colouring: wanted === colouring || offers(wanted) ? wanted : colouring, filters }
}

/** The markers that are events of this recording, and the question about them. */
function asked({ history }: Store, link: Link): Pick<State, "markers" | "question"> {
  const place = (event: number | undefined) => (event !== undefined && event >= -1 && event < history.device.events ? event : null)
  const markers = history.device.summary.recorded ? { a: place(link.a), b: place(link.b), c: place(link.c) } : NO_MARKERS
  const kind = KINDS.find((each) => each === link.ask && each !== "live") ?? "change"
  return { markers, question: markers.a === null && markers.b === null ? "live" : kind }
}

/** The search is that of the tab. */
function tabAndSearch({ history }: Store, { tab = "stacks", search = "" }: Link): Pick<State, "tab" | "search"> {
  return tabsOf(history).some(({ id }) => id === tab) ? { tab, search } : { tab: "stacks", search: "" }
}

/** The view of call stacks that a selection implies, so that a link need not repeat it. */
function impliedView(selection: string | undefined): StacksView {
  const key = parseKey(selection?.replace(/^stacks:/, "") ?? "")
  return key ? { mode: key.direction, folded: key.folded, top: ROOT } : WHOLE_TREE
}

function stacksView({ device, stacks }: Store["history"], link: Link): StacksView {
  const implied = impliedView(link.selection)
  const mode = STACK_MODES.find((each) => each === link.stacks) ?? implied.mode
  const folded = link.frames === "all" ? false : link.frames === "folded" ? true : implied.folded
  if (!link.focus || link.focus < 0) return { mode, folded, top: ROOT }
  const { size } = new CallTree(device, stacks, originsOf(device, stacks), directionOf(mode), folded)
  return { mode, folded, top: link.focus < size ? link.focus : ROOT }
}

/** Sets the entire view from a link; parts that are missing, or do not fit this recording, are as the page opens. */
export function follow(store: Store, link: Link, chosen = colours(store, link)): void {
  const { device, ooms, hasTimes } = store.history
  store.set({ axis: link.axis === "time" && hasTimes ? "time" : "events", curve: link.curve === "requested" ? "requested" : "allocated" })
  const [x0, x1, y0, y1] = link.window ?? [0, 0, 0, 0]
  const inside = (id: number | undefined, count: number) => id !== undefined && id >= 0 && id < count
  const pinned = link.pinned === undefined ? -1 : drawnRow(device, link.pinned)
  store.set(chosen) // which decides how high the axis is
  const change: Partial<State> = {
    window: x1 > x0 && y1 > y0 ? { x0, x1, y0, y1 } : store.opens,
    cursor: link.cursor === -1 || inside(link.cursor, device.events) ? link.cursor! : store.opening(store.state.curve),
    pinned,
    pinnedOom: pinned < 0 && inside(link.oom, ooms.length) ? link.oom! : -1,
    selection: null,
    ...asked(store, link),
    ...tabAndSearch(store, link),
    stacks: stacksView(store.history, link),
  }
  store.set(change)
}

/** What a reader would not go back to by itself: the cursor moves, text is typed. */
export const PASSING: readonly (keyof Link)[] = ["cursor", "search", "frames", "selection"]

/** Writes the view into the address; each one that a reader may want to go back to is an entry in the browser's history. */
export class Address {
  private timer = 0
  private written = location.hash
  /** What is in the address; null while the reader's own link is there, which may say the same in other words. */
  private view: string | null = null

  /** `passing`: the parts of a link that make no entry of their own; `follow`: shows the view of another link. */
  constructor(
    private readonly current: () => Link,
    private readonly passing: (link: Link) => readonly (keyof Link)[],
    follow: (link: Link) => Promise<void>,
  ) {
    addEventListener("hashchange", async () => {
      if (location.hash === this.written) return
      this.written = location.hash
      clearTimeout(this.timer) // what was about to be written is gone
      await follow(Address.read())
      this.view = null
      this.touch()
    })
  }

  static read(): Link {
    return decodeLink(location.hash)
  }

  get fragment(): string {
    return encodeLink(this.current())
  }

  /** To be called when the view changes; the address follows once the view rests. */
  touch(): void {
    clearTimeout(this.timer)
    this.timer = window.setTimeout(() => this.write(), WAIT_MS)
  }

  write(): void {
    // The reader has just followed another link, whose event is still to come: do not overwrite it.
    if (location.hash !== this.written) return
    const link = this.current()
    const fragment = encodeLink(link)
    const [view, before] = [this.viewOf(link), this.view]
    this.view = view
    if (`#${fragment}` === location.hash || (!fragment && !location.hash)) return
    const url = fragment ? `#${fragment}` : location.pathname + location.search
    try {
      if (before === null || view === before) history.replaceState(null, "", url)
      else history.pushState(null, "", url)
      this.written = location.hash
    } catch {
      // some browsers give files no history; then the address stays as it was
    }
  }

  private viewOf(link: Link): string {
    return encodeLink({ ...link, ...Object.fromEntries(this.passing(link).map((name) => [name, undefined])) })
  }
}
