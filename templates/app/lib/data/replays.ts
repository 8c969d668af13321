/** What other settings of the allocator would have reserved over the recording, by the model; and what private pools did. */

import { type Bytes, Changes } from "./curves"
import type { EnvelopeHeader, Payload, ReplayHeader } from "./payload"

export type Replay = ReturnType<typeof readReplays>[number]

/** Settings without a limit, thinned to the maximum of each run of events. */
export function readReplays(payload: Payload, headers: ReplayHeader[], events: number) {
  return headers.map(({ settings, event, bytes }) => {
    const values = payload.floats(bytes)
    return { settings, curve: new Changes(payload.ints(event), values, events + 1), most: Math.max(...values) }
  })
}

export type Envelope = ReturnType<typeof readEnvelopes>[number]

/** The memory that private pools reserve, which serves nothing else: it is drawn down from the reserved curve, under larger pools.
 *
 * `edge` is the lower one, `most` the most that the pool reserves. */
export function readEnvelopes(payload: Payload, headers: EnvelopeHeader[], events: number) {
  return headers.map(({ pool, most, event, bytes }) => ({
    pool,
    most,
    edge: new Changes(payload.ints(event), payload.floats(bytes), events + 1),
  }))
}

/** What each private pool reserves after an event, from the highest down: from `top` to `bottom`. */
export function poolsAt(reserved: Bytes, envelopes: Envelope[], event: number): { pool: string; top: number; bottom: number }[] {
  let bottom = reserved.at(event + 1)
  return envelopes.map(({ pool, edge }) => ({ pool, top: bottom, bottom: (bottom = edge.at(event + 1)) }))
}
