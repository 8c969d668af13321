/** Round positions for the ticks of an axis. */

import { UNITS } from "../text/format"

/** The power of 1024 in which a number of bytes is at least 1. */
function unitOf(bytes: number): number {
  let power = 0
  while (power < UNITS.length - 1 && bytes >= 1024 ** (power + 1)) power++
  return power
}

/** About `wanted` ticks between low and high, round in the unit of the higher end: 0.5 GiB, 1 GiB. */
export function byteTicks(low: number, high: number, wanted: number): number[] {
  const rough = (high - low) / Math.max(wanted, 1)
  if (!(rough > 0)) return []
  const unit = 1024 ** unitOf(high)
  return multiples(low, high, unit * nice(rough / unit))
}

/** The next of 1, 2, 5 times a power of ten. */
function nice(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough))
  return power * ([1, 2, 5, 10].find((value) => value * power >= rough * (1 - 1e-9)) ?? 10)
}

/** Multiples of 1, 2 or 5 times a power of ten; integers only. */
export function eventTicks(low: number, high: number, wanted: number): number[] {
  const rough = Math.max((high - low) / Math.max(wanted, 1), 1)
  return multiples(Math.max(low, 0), high, nice(rough))
}

/** Multiples of 1, 2 or 5 times a power of ten microseconds; from a minute on, of round parts of minutes and hours. */
export function timeTicks(low: number, high: number, wanted: number): number[] {
  const rough = Math.max((high - low) / Math.max(wanted, 1), 1)
  const clock = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400].map((seconds) => seconds * 1e6)
  const step = rough <= 10e6 ? nice(rough) : (clock.find((value) => value >= rough) ?? 86_400e6 * Math.ceil(rough / 86_400e6))
  return multiples(Math.max(low, 0), high, step)
}

/** Writes time ticks in one unit, with the digits that their distance needs: `1.2 s`, `1.4 s`; `5:30`. */
export function timeTickLabels(ticks: number[]): string[] {
  const spacing = ticks.length > 1 ? ticks[1] - ticks[0] : ticks[0] || 1
  const last = ticks[ticks.length - 1] ?? 0
  if (spacing >= 15e6) return ticks.map(clockText)
  const [unit, name] = last >= 1e6 ? [1e6, "s"] : last >= 1000 ? [1000, "ms"] : [1, "\u00b5s"]
  const digits = Math.max(0, Math.ceil(-Math.log10(spacing / unit) - 1e-9))
  return ticks.map((tick) => (tick === 0 ? "0" : `${(tick / unit).toFixed(digits)} ${name}`))
}

/** `5:30` for minutes and seconds, `1:05:30` with hours. */
export function clockText(us: number): string {
  const seconds = Math.round(us / 1e6)
  const two = (value: number) => String(value).padStart(2, "0")
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`
}

function multiples(low: number, high: number, step: number): number[] {
  const out: number[] = []
  for (let k = Math.ceil(low / step); k * step <= high; k++) out.push(k * step)
  return out
}

/** Writes byte ticks in the unit of the largest one, so that a column of labels reads evenly. */
export function byteTickLabels(ticks: number[]): string[] {
  const power = unitOf(ticks.length ? ticks[ticks.length - 1] : 0)
  const scale = 1024 ** power
  const spacing = ticks.length > 1 ? (ticks[1] - ticks[0]) / scale : 1
  const digits = Math.max(0, Math.ceil(-Math.log10(spacing) - 1e-9))
  return ticks.map((tick) => (tick === 0 ? "0" : `${(tick / scale).toFixed(digits)} ${UNITS[power]}`))
}
