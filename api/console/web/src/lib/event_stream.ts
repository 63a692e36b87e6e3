// Server-sent events (WHATWG HTML, 9.2) out of the text of an answer, in whatever pieces it comes.

export interface StreamEvent { type: string; data: string; id: string }

export class EventStream {
  /** The id of the last event that had one: where to go on from. */
  lastId = "";
  private rest = "";
  private type = "";
  private data: string[] = [];
  private afterReturn = false;  // A line feed that follows is of the same line end.

  /** The events that `text`, the next piece, completes. */
  take(text: string): StreamEvent[] {
    const events: StreamEvent[] = [];
    const fresh = this.afterReturn && text.startsWith("\n") ? text.slice(1) : text;
    if (text !== "") {
      this.afterReturn = text.endsWith("\r");
    }
    const lines = (this.rest + fresh).split(/\r\n|\n|\r/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.line(line);
      if (event !== undefined) {
        events.push(event);
      }
    }
    return events;
  }

  private line(line: string): StreamEvent | undefined {
    if (line === "") {
      return this.end();
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") {
      this.type = value;
    } else if (name === "data") {
      this.data.push(value);
    } else if (name === "id" && !value.includes("\0")) {
      this.lastId = value;
    }
    return undefined;  // Anything else is a comment, or for whoever connects again by rules of its own.
  }

  private end(): StreamEvent | undefined {
    const { type, data } = this;
    this.type = "";
    this.data = [];
    return data.length === 0 ? undefined : { type: type === "" ? "message" : type, data: data.join("\n"), id: this.lastId };
  }
}
