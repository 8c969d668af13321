import { test } from "node:test"
import assert from "node:assert/strict"
import { type ColumnSpec, FORMAT, Payload } from "./payload"

type Typed = Int8Array | Uint8Array | Uint16Array | Int16Array | Uint32Array | Int32Array | Float64Array

/** Packs columns as `reporters/payload.py` does: the lowest bytes of all values first. */
function packed(columns: Record<string, [ColumnSpec["type"], Typed, boolean?]>): Payload {
  const specs: Record<string, ColumnSpec> = {}
  const area: number[] = []
  for (const [name, [type, values, delta = false]] of Object.entries(columns)) {
    specs[name] = { type, offset: area.length, length: values.length, delta }
    const bytes = new Uint8Array(values.buffer)
    const width = values.BYTES_PER_ELEMENT
    for (let plane = 0; plane < width; plane++) for (let at = plane; at < bytes.length; at += width) area.push(bytes[at])
    while (area.length % 8) area.push(0)
  }
  const head = new TextEncoder().encode(JSON.stringify({ format: FORMAT, columns: specs, devices: [{}, {}] }))
  const start = (4 + head.length + 7) & ~7
  const body = new Uint8Array(start + area.length)
  new DataView(body.buffer).setUint32(0, head.length, true)
  body.set(head, 4)
  body.set(area, start)
  return new Payload(body.buffer)
}

test("columns of every width come back, negative ones too", () => {
  const columns = {
    u8: Uint8Array.of(0, 255),
    i8: Int8Array.of(-1, 127),
    u16: Uint16Array.of(1, 65535, 256),
    i16: Int16Array.of(-300, 300),
    u32: Uint32Array.of(70_000, 1),
    i32: Int32Array.of(-70_000, 2 ** 30),
    f64: Float64Array.of(2 ** 46 + 4096, -1, 0),
  }
  const payload = packed(Object.fromEntries(Object.entries(columns).map(([type, values]) => [type, [type as ColumnSpec["type"], values]])))
  for (const [type, values] of Object.entries(columns)) {
    assert.deepEqual([...payload.floats(payload.header.columns[type])], [...values], type)
    if (type !== "f64") assert.deepEqual([...payload.ints(payload.header.columns[type])], [...values], type)
  }
})

test("differences are added up, and an empty column is empty", () => {
  const payload = packed({
    events: ["i16", Int16Array.of(-1, 1, 300), true],
    bytes: ["f64", Float64Array.of(2 ** 40, 512), true],
    none: ["u8", new Uint8Array(0)],
  })
  const { events, bytes, none } = payload.header.columns
  assert.deepEqual([...payload.ints(events)], [-1, 0, 300])
  assert.deepEqual([...payload.floats(bytes)], [2 ** 40, 2 ** 40 + 512])
  assert.deepEqual([...payload.ints(none)], [])
})

test("ids stay as narrow as they were packed, and do not keep all the other bytes", () => {
  const payload = packed({
    small: ["u8", Uint8Array.of(3, 255)],
    signed: ["i16", Int16Array.of(-1, 300)],
    large: ["u32", Uint32Array.of(70_000, 1)],
  })
  const read = (name: string) => payload.ids(payload.header.columns[name])
  const [small, signed, large] = [read("small"), read("signed"), read("large")]
  assert.deepEqual([small, signed, large], [Uint8Array.of(3, 255), Int16Array.of(-1, 300), Int32Array.of(70_000, 1)])
  assert.equal(small.buffer.byteLength, 2)
})

test("when every device has been read, the bytes are let go", () => {
  const payload = packed({ it: ["u16", Uint16Array.of(1, 2)] })
  const spec = payload.header.columns.it
  payload.taken(0)
  payload.taken(0)
  assert.deepEqual([...payload.ints(spec)], [1, 2])
  payload.taken(1)
  assert.throws(() => payload.ints(spec), RangeError)
})

test("another format is refused", () => {
  const head = new TextEncoder().encode('{"format":99}')
  const body = new Uint8Array(24)
  new DataView(body.buffer).setUint32(0, head.length, true)
  body.set(head, 4)
  assert.throws(() => new Payload(body.buffer), /format 99/)
})
