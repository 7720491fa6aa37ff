// The model as the page holds it: columns as people see them, and a circuit whose leaves are tables over them.
//
// In:  the JSON that Python wrote (README.md describes it).
// Out: `Model`, whose parameters are normalised in double precision.

export interface ColumnData {
  name: string;
  kind: "bit" | "boolean" | "category" | "ordinal" | "number" | "date";
  labels: string[];
  texts?: string[];
  numbers?: number[];
  isDay?: boolean;
  isDuration?: boolean; // numbers are microseconds
}

export interface PageData {
  format: number;
  version: string;
  title: string;
  size: { components: number; leaves: number; sums: number; edges: number };
  model: { edges: number; parameters: number }; // as people count them
  isDeterministic: boolean;
  columns: ColumnData[];
  numbers: string; // all arrays, compressed, in base64
  target: number | null;
}

/** What the page has read, which also goes to the worker. */
export interface ReadData extends PageData {
  arrays: ArrayBuffer;
}

export interface Column {
  name: string;
  kind: ColumnData["kind"];
  labels: string[]; // as Python calls the values
  texts: string[]; // as the page does
  numbers: number[] | null; // what stands for each value in a mean
  isDay: boolean;
  isDuration: boolean;
  isOrdered: boolean;
  size: number;
}

/**
 * Components on one structure, `lanes` of them side by side. Children come before parents. An entry is
 * a value of a leaf, or a product of a sum.
 */
export interface Model {
  columns: Column[];
  firstValue: Int32Array; // where the values of each column start among those of all
  weight: Float64Array; // of every component
  lanes: number;
  blocks: number;
  leaves: number; // the first nodes are these
  nodes: number;
  entries: number;
  isDeterministic: boolean; // every component
  columnOf: Int32Array; // of every leaf
  start: Int32Array; // entries of node n are start[n] to start[n + 1]
  left: Int32Array; // left child; of a leaf, the place of the value among those of all columns
  right: Int32Array; // right child
  theta: Float64Array; // [block][entry][lane]
  logTheta: Float32Array; // the same
}

const LANES = 64; // a block of values fits into the second level of the cache

/** Decompress the arrays. */
export async function read(data: PageData): Promise<ReadData> {
  const text = atob(data.numbers);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return { ...data, numbers: "", arrays: await new Response(stream).arrayBuffer() };
}

export function readModel(data: ReadData): Model {
  const columns = readColumns(data);
  const firstValue = Int32Array.from({ length: columns.length + 1 }, () => 0);
  columns.forEach((column, i) => (firstValue[i + 1] = firstValue[i] + column.size));
  const { components, leaves, sums, edges } = data.size;
  let at = 0;
  const ints = (length: number) => new Int32Array(data.arrays, (at += 4 * length) - 4 * length, length);
  const floats = (length: number) => new Float32Array(data.arrays, (at += 4 * length) - 4 * length, length);
  const columnOf = ints(leaves);
  const widths = ints(sums);
  const [toLeft, toRight] = [ints(edges), ints(edges)];
  const nodes = leaves + sums;
  const start = new Int32Array(nodes + 1);
  for (let n = 0; n < nodes; n++) {
    start[n + 1] = start[n] + (n < leaves ? columns[columnOf[n]].size : widths[n - leaves]);
  }
  const entries = start[nodes];
  const left = new Int32Array(entries);
  const right = new Int32Array(entries);
  for (let n = 0; n < leaves; n++) {
    for (let e = start[n]; e < start[n + 1]; e++) left[e] = firstValue[columnOf[n]] + e - start[n];
  }
  left.set(toLeft, start[leaves]);
  right.set(toRight, start[leaves]);
  const weight = Float64Array.from(floats(components), Math.exp);
  const total = weight.reduce((a, b) => a + b, 0);
  for (let c = 0; c < components; c++) weight[c] /= total;
  const blocks = Math.ceil(components / LANES);
  const lanes = Math.ceil(components / blocks);
  return {
    columns, firstValue, weight, lanes, blocks, leaves, nodes, entries, columnOf, start, left, right,
    isDeterministic: data.isDeterministic,
    ...inLanes(floats(entries * components), start, components, blocks, lanes),
  };
}

export function readColumns(data: PageData): Column[] {
  return data.columns.map((column) => ({
    name: column.name,
    kind: column.kind,
    labels: column.labels,
    texts: column.texts ?? column.labels,
    numbers: column.numbers ?? null,
    isDay: column.isDay ?? false,
    isDuration: column.isDuration ?? false,
    isOrdered: column.kind === "number" || column.kind === "date" || column.kind === "ordinal",
    size: column.labels.length,
  }));
}

/** Parameters `[entry][component]` as `[block][entry][lane]`, where those of a node add up to one. */
function inLanes(raw: Float32Array, start: Int32Array, count: number, blocks: number, lanes: number) {
  const nodes = start.length - 1;
  const entries = start[nodes];
  const theta = new Float64Array(blocks * entries * lanes);
  const logTheta = new Float32Array(blocks * entries * lanes).fill(-Infinity);
  const total = new Float64Array(count);
  for (let n = 0; n < nodes; n++) {
    total.fill(0);
    for (let e = start[n]; e < start[n + 1]; e++) {
      for (let c = 0; c < count; c++) total[c] += Math.exp(raw[e * count + c]);
    }
    for (let e = start[n]; e < start[n + 1]; e++) {
      for (let c = 0; c < count; c++) {
        const block = Math.floor(c / lanes);
        const at = (block * entries + e) * lanes + (c - block * lanes);
        logTheta[at] = raw[e * count + c];
        if (total[c] > 0) theta[at] = Math.exp(raw[e * count + c]) / total[c];
      }
    }
  }
  return { theta, logTheta };
}
