/** Which addresses may become links, and what is said about them. Pure. */

/** The address, if a link may go there: the web or mail, and nothing relative, which would lead into this page. */
export function safeAddress(written: string): URL | null {
  let url: URL;
  try {
    url = new URL(written);
  } catch {
    return null;
  }
  if (url.protocol === "mailto:") return url;
  return (url.protocol === "https:" || url.protocol === "http:") && url.host !== "" ? url : null;
}

/**
 * The host to show behind a link whose text looks like another address; null where the text misleads nobody.
 * A plain word such as "here" promises nothing: the address is in its title.
 */
export function hiddenHost(label: string, url: URL): string | null {
  if (url.protocol === "mailto:") return null;
  const text = label.trim().toLowerCase();
  const promised = /(?:^|[\s/(@])((?:[\p{L}\p{N}-]+\.)+\p{L}{2,})(?::\d+)?(?=$|[\s/?#)])/u.exec(text)?.[1];
  if (promised === undefined) return null;
  const host = url.hostname.toLowerCase();
  const isSame = host === promised || host === `www.${promised}` || `www.${host}` === promised;
  return isSame && url.username === "" ? null : url.host;
}
