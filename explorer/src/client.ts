// The page's end of the line: a worker made of the page's own script, or the server in the page itself
// where workers are not allowed.

import type { ReadData } from "./model.ts";
import { Server, type Message, type Question } from "./server.ts";

export interface Client {
  ask(question: Question): void;
}

export function connect(data: ReadData, receive: (message: Message) => void): Client {
  const code = document.getElementById("code")?.textContent;
  let server: Server | null = null;
  let worker: Worker | null = null;
  let last: Question | null = null;
  const inPage = () => {
    worker?.terminate();
    worker = null;
    try {
      server = new Server(data, receive);
    } catch (error) {
      receive({ kind: "failed", reason: String(error) });
      return;
    }
    if (last) server.ask(last);
  };
  try {
    if (!code) throw new Error("no script");
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    worker = new Worker(url);
    let isReady = false;
    worker.onmessage = ({ data: message }: MessageEvent<Message>) => {
      isReady = true;
      receive(message);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (!isReady) inPage();
      else receive({ kind: "failed", reason: event.message });
    };
    worker.postMessage(data);
  } catch {
    setTimeout(inPage, 0);
  }
  return {
    ask(question) {
      last = question;
      if (worker) worker.postMessage(question);
      else server?.ask(question);
    },
  };
}

/** The worker's end. */
export function serve(): void {
  let server: Server | null = null;
  onmessage = ({ data }: MessageEvent<ReadData | Question>) => {
    if ("format" in data) {
      try {
        server = new Server(data, (message) => postMessage(message));
      } catch (error) {
        postMessage({ kind: "failed", reason: String(error) } satisfies Message);
      }
    } else server?.ask(data);
  };
}
