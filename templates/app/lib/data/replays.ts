/** What other settings of the allocator would have reserved over the recording, by the model; and what private pools did. */

import { type Bytes, Changes } from "./curves"
import type { EnvelopeHeader, Payload, ReplayHeader } from "./payload"

/** One setting without a limit, thinned to the maximum of each run of events. */
export interface Replay {
  settings: string
  curve: Bytes
  most: number
}

export function readReplays(payload: Payload, headers: ReplayHeader[], events: number): Replay[] {
  return headers.map(({ settings, event, bytes }) => {
    const values = payload.floats(bytes)
    return { settings, curve: new Changes(payload.ints(event), values, events + 1), most: Math.max(...values) }
  })
}

/** The memory that a private pool reserves, which serves nothing else: it is drawn down from the reserved curve, under larger pools. */
export interface Envelope {
  /** As in `device.pools`. */
  pool: string
  /** Its lower edge. */
  edge: Bytes
  /** The most that the pool reserves. */
  most: number
}

export function readEnvelopes(payload: Payload, headers: EnvelopeHeader[], events: number): Envelope[] {
  return headers.map(({ pool, most, event, bytes }) => ({
    pool,
    most,
    edge: new Changes(payload.ints(event), payload.floats(bytes), events + 1),
  }))
}
