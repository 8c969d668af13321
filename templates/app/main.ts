/** Starts the page; in a worker made of this same script, starts the painting instead. */

import { type Device, readStacks } from "./lib/data/device"
import { once } from "./lib/data/known"
import { sameFrames } from "./lib/tables/joined"
import type { Link } from "./lib/text/link"
import { Payload, unpack } from "./lib/data/payload"
import { Surface } from "./gl/surface"
import { Address, PASSING } from "./views/page/address"
import { ComparePage } from "./views/page/compare_page"
import { DeviceRows } from "./views/page/device_rows"
import { FindDialog } from "./views/page/find_dialog"
import { formatBytes } from "./lib/text/format"
import { addLiveStyle, h, onScreen, textOf } from "./views/shared/dom"
import { answerIn, DevicePage, groupIn } from "./views/page/device_page"
import { cannotStart, showUncaught } from "./views/shared/failure"
import { listenPageKeys, oneStop } from "./views/shared/keys"
import { showWords } from "./views/timeline/help"
import { themeSwitch } from "./views/page/theme_switch"
import { RasterClient } from "./worker/client"
import { type DedicatedWorkerGlobalScopeLike, serve } from "./worker/server"

/** Whether this is the program of a page that compares two recordings: build.mjs makes one for these, and a smaller one for all others. */
declare const COMPARES: boolean

/** Unpacks the data and wakes the device of the link, or the default; the others wait until they are chosen. */
async function startPage(script: string): Promise<void> {
  const root = document.documentElement
  performance.mark("script")
  addLiveStyle()
  const unpacking = unpack(textOf("payload"))
  const client = new RasterClient(script)
  const surface = new Surface()
  const finding = new FindDialog()
  const tools = h("div.page-tools", finding.opener, themeSwitch())
  document.querySelector(".masthead")!.append(tools)
  const payload = new Payload(await unpacking)
  performance.mark("unpacked")
  const stacks = readStacks(payload)
  let calm!: () => void
  /** Resolves once the first picture is on the screen. */
  const seen = new Promise<void>((done) => (calm = done))
  const whole = once(async () => {
    try {
      if (plain) await seen
      payload.add(await unpack(await later()))
    } catch (error) {
      root.classList.remove("starting") // what panels would show instead is there to read, and what their first tab would hold
      document.body.classList.remove("one-screen")
      throw error
    }
  })
  const unfold = await unfolder()
  const articles = [...document.querySelectorAll<HTMLElement>("article.device")]
  articles.sort((one, other) => Number(one.dataset.device) - Number(other.dataset.device)) // the page has the most important one first
  const opening = Math.max(
    articles.findIndex((article) => "default" in article.dataset),
    0,
  )
  let shown = -1
  const { compared, columns, devices, summary } = payload.header
  const address = new Address(
    () => pages[shown]?.link(shown === opening ? undefined : shown) ?? {},
    // Where two recordings are compared, A and B are the cursors.
    ({ device = opening }) => (COMPARES && device >= devices.length ? [...PASSING, "a", "b"] : PASSING),
    (link) => whole().then(() => void show(link.device ?? opening, link)),
  )
  const rows = new DeviceRows(document.querySelector(".switch"), (device, at) => void showDevice(device, at))
  const mark = () => rows.show(shown, pages[shown]?.moment ?? null)
  /** Has the address and the rows of devices follow the view. */
  const tell = () => {
    address.touch()
    mark()
  }
  const read: Device[] = []
  const shared = COMPARES && compared ? sameFrames(stacks, payload.ints(columns.frame_same)) : stacks
  const pages = articles.map((article, index) =>
    !COMPARES || index < devices.length
      ? new DevicePage(article, payload, read, stacks, index, whole, tell)
      : new ComparePage(article, payload, read, shared, new RasterClient(script), tell),
  )
  addEventListener("beforeprint", () => articles.forEach(unfold))
  const show = (index: number, link: Link | null) => {
    if (index === shown || !(index in pages)) return link && pages[shown]?.follow(link)
    unfold(articles[index])
    pages.forEach((page, k) => k !== index && page.hide())
    shown = index
    pages[index].show(surface, client, link, async () => {
      performance.mark("first picture")
      root.dataset.ready = String(index)
      await onScreen()
      performance.mark("on screen")
      calm()
    })
    mark()
    whole().then(mark, () => {}) // by then times are known
  }
  const showDevice = async (index: number, at: [number, number] | null = null) => {
    await whole()
    show(index, null)
    const { moment } = pages[index]
    if (moment && at) moment.goTo(rows.eventIn(moment, at))
    tell()
  }
  const names = compared ? ["BASE", "NEW", "Compare"] : devices.map(({ id }) => id)
  finding.serve(
    () => pages[shown]?.findable ?? null,
    (articles.length > 1 ? articles : []).map((_, at) => {
      const detail = at in devices ? `peak ${formatBytes(summary.devices[at].peaks.allocated.bytes)}` : ""
      return { kind: "device", name: names[at], detail, goal: { to: "device", at }, bytes: null }
    }),
    (device) => void showDevice(device).then(() => articles[device].querySelector<HTMLElement>(".plot")?.focus()),
  )
  // A finding's link changes the address; what it is about is in the panels under the timeline.
  document.querySelector("main")!.addEventListener("click", (event) => {
    if (!(event.target as Element).closest("a.show")) return
    setTimeout(() => articles[shown]?.querySelector(".moment, .panels")?.scrollIntoView({ block: "start" }))
  })
  document.querySelectorAll<HTMLElement>(".brief-do").forEach((each) => oneStop(each, true))
  quieten(document)
  listenPageKeys({ "/": () => pages[shown]?.panels?.search(), g: showWords })
  const timelines = () => pages[shown]?.timelines ?? []
  /** The page's interface for scripts. */
  const snapreport = {
    /** The findings, as `snapreport summary --json` prints them. */
    summary,
    /** The part of the axis and the bytes that the timeline shows; and that of every timeline in view. */
    window: () => timelines()[0]?.window ?? null,
    windows: () => timelines().map((each) => each.window),
    /** Whether the timelines have caught up with their windows. */
    settled: () => timelines().every((each) => each.settled),
    /** The strips as drawn, without axes and labels. */
    pixels: () => timelines()[0]?.pixels() ?? null,
    /** What the panels of the present view list. */
    answer: () => answerIn(pages[shown]?.asks),
    /** The index of an allocation's group in a colouring, for `only` and `without` in links; null without such an allocation. */
    group: (colouring: string, row: number) => groupIn(pages[shown]?.asks, colouring, row),
    /** The fragment that opens the present view. */
    link: () => address.fragment,
  }
  Object.assign(globalThis, { snapreport })
  if (!pages.length) {
    root.classList.remove("starting")
    root.dataset.ready = root.dataset.complete = ""
    return
  }
  finding.opener.disabled = false
  oneStop(tools, true)
  const wanted = Address.read()
  const plain =
    !compared &&
    !Object.keys(wanted).length &&
    ["site", "role"].includes(payload.header.colour) &&
    articles[opening].querySelector(".stage-slot")
  if (!plain) await whole() // the first picture may be of what comes later
  show(wanted.device !== undefined && wanted.device in pages ? wanted.device : opening, wanted)
  address.write()
}

/** Makes each list of findings one stop of the Tab key, and words none: one key tells what all of them mean, and to click one still does. */
function quieten(part: ParentNode): void {
  part.querySelectorAll<HTMLElement>("section.findings").forEach((each) => oneStop(each))
  part.querySelectorAll<HTMLElement>(".term, dt[tabindex]").forEach((each) => (each.tabIndex = -1))
}

/** Returns what puts the parts of a device, which are packed until it is opened, in their places; the template that made the page made them, too. */
const unfolder = once(async () => {
  const folded = document.getElementById("folded")
  const bytes = folded ? await unpack(folded.textContent!) : new ArrayBuffer(0)
  const parts = once(() => {
    const template = document.createElement("template")
    template.innerHTML = new TextDecoder().decode(bytes)
    return [...template.content.children]
  })
  return (article: Element) => {
    for (const place of article.querySelectorAll<HTMLElement>(".folded-part")) {
      const part = parts()[Number(place.dataset.part)]
      quieten(part)
      place.replaceWith(...part.childNodes)
    }
  }
})

/** The text of what the first picture does without: it stands behind this script, where the parser may not have come yet. */
async function later(): Promise<string> {
  if (document.readyState === "loading") await new Promise((done) => addEventListener("DOMContentLoaded", done, { once: true }))
  return textOf("later")
}

if (typeof document === "undefined") serve(globalThis as unknown as DedicatedWorkerGlobalScopeLike)
else {
  showUncaught()
  startPage(document.currentScript!.textContent!).catch(async (error) => {
    cannotStart(error)
    document.querySelectorAll("article.device").forEach(await unfolder())
  })
}
