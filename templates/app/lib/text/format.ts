/** Numbers as text, the same as `snapreport/ground/units.py` writes them. */

export const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]

/** Bytes with three or four figures in binary units: `11.58 GiB`, `512 B`. */
export function formatBytes(count: number): string {
  const sign = count < 0 ? "-" : ""
  let value = Math.abs(count)
  if (value < 1024) return `${sign}${value} B`
  for (let power = 1; power < UNITS.length; power++) {
    value /= 1024
    for (const [digits, bound] of [
      [2, 100],
      [1, 1000],
      [0, 1024],
    ]) {
      const text = value.toFixed(digits)
      if (Number(text) < bound) return `${sign}${text} ${UNITS[power]}`
    }
  }
  return `${sign}${Math.round(value)} EiB`
}

/** A change, with its sign; none is `0 B`. */
export function formatSignedBytes(count: number): string {
  return count > 0 ? `+${formatBytes(count)}` : count < 0 ? `\u2212${formatBytes(-count)}` : formatBytes(count)
}

/** Bytes, or with `signed` a change. */
export function formatAmount(bytes: number, signed: boolean): string {
  return signed ? formatSignedBytes(bytes) : formatBytes(bytes)
}

/** `22,332` */
export function formatCount(count: number): string {
  return String(Math.trunc(count)).replace(/\B(?=(\d{3})+(?!\d))/g, ",")
}

export function formatExact(bytes: number): string {
  return `${formatCount(bytes)} bytes`
}

/** `1 allocation`, `2,000 allocations` */
export function plural(count: number, word: string): string {
  return `${formatCount(count)} ${word}${count === 1 ? "" : "s"}`
}

/** A share of a total: `38.2%`; never `0.0%` for more than nothing. */
export function formatShare(part: number, whole: number): string {
  if (whole <= 0) return "-"
  if (part === 0) return "0%"
  const percent = (100 * part) / whole
  return percent < 0.1 ? "<0.1%" : `${percent.toFixed(1)}%`
}

/** A change in percent of what there was: `+47%`, `−3.2%`; "" for none. */
export function formatChange(change: number, base: number): string {
  if (!change || !base) return ""
  const percent = Math.abs(change / base) * 100
  if (percent < 0.1) return "<0.1%"
  const times = percent < 10 ? 10 : 1
  const even = (percent * times) % 2 === 0.5 // Python rounds a tie to even
  const rounded = even ? Math.floor(percent * times) : Math.round(percent * times)
  return `${change < 0 ? "\u2212" : "+"}${times > 1 ? (rounded / times).toFixed(1) : formatCount(rounded)}%`
}

/** A duration given in microseconds: `850 µs`, `12.1 ms`, `3.42 s`, `4 min 07 s`. */
export function formatDuration(us: number): string {
  if (us < 0) return `-${formatDuration(-us)}`
  const whole = Math.round(us)
  if (whole < 1000) return `${whole} \u00b5s`
  const tenths = Math.floor((whole + 50) / 100)
  if (tenths < 10_000) return `${(tenths / 10).toFixed(1)} ms`
  const hundredths = Math.floor((whole + 5000) / 10_000)
  if (hundredths < 12_000) return `${(hundredths / 100).toFixed(2)} s`
  const seconds = Math.floor((whole + 500_000) / 1_000_000)
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`
}

/** An event as people read it: `start` for -1. */
export function formatEvent(event: number): string {
  return event < 0 ? "start" : `event ${formatCount(event)}`
}

/** The events of a stage, whose end is exclusive: `5 to 89`; `none at 5` for a stage without an event. */
export function formatEvents(start: number, end: number): string {
  if (end < 0) return "before event 0"
  const first = formatCount(Math.max(start, 0))
  return end > Math.max(start, 0) ? `${first} to ${formatCount(Math.max(end - 1, 0))}` : `none at ${first}`
}

/** `0x7f3a00000000` */
export function formatAddress(address: number): string {
  return `0x${address.toString(16)}`
}
