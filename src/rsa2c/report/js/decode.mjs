// Numbers travel as base64 of little-endian floats: {"shape": [n, d], "f64": "..."}.

const KINDS = { f64: Float64Array, f32: Float32Array };

/** The same document with every encoded array decoded to {shape, data}. */
export function decode(node) {
  if (Array.isArray(node)) return node.map(decode);
  if (node === null || typeof node !== "object") return node;
  for (const [kind, Type] of Object.entries(KINDS)) {
    if (typeof node[kind] === "string") return { shape: node.shape, data: new Type(bytes(node[kind]).buffer) };
  }
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, decode(value)]));
}

/** Row i of a decoded (n, d) array, a view. */
export function row(array, i) {
  const width = array.shape[1];
  return array.data.subarray(i * width, (i + 1) * width);
}

function bytes(text) {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
  return out;
}
