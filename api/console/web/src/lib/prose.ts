// The little Markdown that descriptions are written in: paragraphs, `code`, **bold**.

export interface Span { kind: "text" | "code" | "strong"; text: string }

export function paragraphs(markdown: string): Span[][] {
  return markdown.split(/\n{2,}/).map((part) => part.trim()).filter((part) => part !== "").map(spans);
}

export function spans(line: string): Span[] {
  return line.split(/(`[^`]+`|\*\*[^*]+\*\*)/).filter((part) => part !== "").map((part): Span => {
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) {
      return { kind: "code", text: part.slice(1, -1) };
    }
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) {
      return { kind: "strong", text: part.slice(2, -2) };
    }
    return { kind: "text", text: part };
  });
}
