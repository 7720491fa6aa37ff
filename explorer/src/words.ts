// Numbers and evidence in plain words.

import { asRange, count } from "./scenario.ts";

export interface Shown {
  name: string;
  kind: string;
  texts: string[];
  numbers: number[] | null;
  isDay: boolean;
  isDuration: boolean;
  isOrdered: boolean;
}

/** A share in percent: 12.3 %, <0.1 %, 99.98 %. Never 0 % or 100 % unless it is. */
export function percent(p: number): string {
  if (p === 0) return "0 %";
  if (p === 1) return "100 %";
  const x = 100 * p;
  if (x < 0.01) return "<0.01 %";
  if (x > 99.99) return ">99.99 %";
  if (x < 1 || x > 99) return `${x.toFixed(2)} %`;
  return `${x.toFixed(1)} %`;
}

/** A difference of shares: +12.3, -0.4. */
export function points(difference: number): string {
  const x = 100 * difference;
  if (Math.abs(x) < 0.05) return "±0";
  return `${x > 0 ? "+" : "−"}${Math.abs(x).toFixed(1)}`;
}

/** How rare something is: "1 row in 250". */
export function oneIn(logP: number): string {
  if (logP > Math.log(0.5)) return `${percent(Math.exp(logP))} of all rows`;
  const n = Math.exp(-logP);
  if (n < 9.5) return `about 1 row in ${n.toFixed(1).replace(/\.0$/, "")}`;
  if (n < 1e6) return `about 1 row in ${grouped(n)}`;
  for (const [limit, unit, word] of [[1e9, 1e6, "million"], [1e12, 1e9, "billion"]] as const) {
    if (n < limit) return `about 1 row in ${(n / unit).toPrecision(2)} ${word}`;
  }
  const exponent = Math.floor(-logP / Math.LN10);
  return `about 1 row in 10${superscript(exponent)}`;
}

function grouped(n: number): string {
  const digits = Math.max(0, Math.floor(Math.log10(n)) - 1);
  const rounded = Math.round(n / 10 ** digits) * 10 ** digits;
  return rounded.toLocaleString("en");
}

const superscript = (n: number): string => [...String(n)].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(d)]).join("");

/** One word for how common it is. */
export function rarity(logP: number): string {
  const p = Math.exp(logP);
  if (p > 0.5) return "usual";
  if (p > 0.1) return "common";
  if (p > 0.01) return "uncommon";
  if (p > 1e-3) return "rare";
  if (p > 1e-6) return "very rare";
  return "almost never seen";
}

/** How often the set values come together, against columns that had nothing to do with one another. */
export function together(logLift: number): string {
  if (!Number.isFinite(logLift)) return "";
  const times = Math.exp(Math.abs(logLift));
  if (times < 1.1) return "about as often as if these columns were unrelated";
  const much = times < 9.95 ? times.toFixed(1) : times < 1e6 ? grouped(times) : "over a million";
  return `${much} times ${logLift > 0 ? "as often as" : "less often than"} if these columns were unrelated`;
}

/** What is set in a column: "age: 40 to 60", "smoker: not yes". */
export function saying(column: Shown, mask: Uint8Array): string {
  const chosen = column.texts.filter((_, k) => mask[k]);
  const others = column.texts.filter((_, k) => !mask[k]);
  const span = asRange(mask);
  if (chosen.length === 1) return chosen[0];
  if (column.isOrdered && span) return rangeText(column, span[0], span[1]);
  if (others.length <= 2 && count(mask) > 2) return `not ${others.join(", not ")}`;
  if (others.length === 1) return `not ${others[0]}`;
  return chosen.length <= 3 ? chosen.join(" or ") : `${chosen.slice(0, 2).join(", ")} or ${chosen.length - 2} more`;
}

/** What a cell of numbers or dates starts and ends with; null where it is open. */
export function endsOf(text: string): [start: string | null, end: string | null] {
  const both = /^(.*) to (.*)$/.exec(text);
  if (both) return [both[1], both[2]];
  const below = /^(?:under|before) (.*)$|^(.*) or less$/.exec(text);
  if (below) return [null, below[1] ?? below[2]];
  const above = /^from (.*) on$|^(.*) or more$/.exec(text);
  if (above) return [above[1] ?? above[2], null];
  return [text, text];
}

/** Cells side by side as one range: "under 40" and "40 to 60" are "under 60". */
export function rangeText(column: Shown, from: number, to: number): string {
  const [first, last] = [column.texts[from], column.texts[to]];
  const isDate = column.kind === "date";
  if (!isDate && column.kind !== "number") return `${first} to ${last}`;
  const [start, end] = [endsOf(first)[0], endsOf(last)[1]];
  if (start === null && end === null) return "any";
  if (start === null) return / or less$/.test(first) ? `${end} or less` : `${isDate ? "before" : "under"} ${end}`;
  if (end === null) return isDate ? `from ${start} on` : `${start} or more`;
  return `${start} to ${end}`;
}

/** The mean of a column of numbers or dates, whose cells have their own. */
export function meanOf(column: Shown, p: Float64Array): number {
  return (column.numbers ?? []).reduce((sum, x, k) => sum + x * p[k], 0);
}

/** The mean in words; null for a column that has none. */
export function meanText(column: Shown, p: Float64Array): string | null {
  if (column.numbers === null || column.numbers.length < 2) return null;
  const mean = meanOf(column, p);
  if (column.kind === "date") return dateText(mean);
  return column.isDuration ? durationText(mean) : numberText(mean, column.numbers);
}

/** A duration to the minute, below an hour to the second: "2 days 03:15", "00:04:30". */
export function durationText(microseconds: number): string {
  const sign = microseconds < 0 ? "−" : "";
  const seconds = Math.round(Math.abs(microseconds) / 1e6);
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  const two = (n: number): string => String(n).padStart(2, "0");
  const clock = seconds < 3600 ? `00:${two(minutes)}:${two(seconds % 60)}` : `${two(hours)}:${two(minutes)}`;
  return sign + (days === 0 ? clock : `${days} day${days === 1 ? "" : "s"} ${clock}`);
}

export function dateText(microseconds: number): string {
  const date = new Date(microseconds / 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(0, 10);
}

export function numberText(x: number, like: number[]): string {
  const span = Math.max(...like) - Math.min(...like);
  const digits = span === 0 ? 0 : Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(span))));
  return x.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: 0 });
}

/** Half the sum of the differences: the share that moved. */
export function moved(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += Math.abs(a[k] - b[k]);
  return sum / 2;
}

export function entropy(p: Float64Array): number {
  let sum = 0;
  for (const x of p) if (x > 0) sum -= x * Math.log(x);
  return sum;
}
