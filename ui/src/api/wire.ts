/** What goes over the wire of the Responses API: items, events, usage. Only what the page uses. */

export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

export type ItemStatus = "in_progress" | "completed" | "incomplete" | "failed" | "calling";

export interface TextPart {
  type: "input_text" | "output_text" | "reasoning_text" | "refusal";
  text?: string;
  refusal?: string;
  annotations?: Annotation[];
}

export interface FilePart {
  type: "input_file";
  filename: string;
  /** A `data:` URL. */
  file_data: string;
}

export interface Annotation {
  type: string;
  url?: string;
  title?: string;
  start_index?: number;
  end_index?: number;
}

interface ItemBase {
  id?: string | null;
  status?: ItemStatus | null;
  encrypted_content?: string | null;
  /**
   * The answer to `harmonia_continue`: this item has only what is new, and its seal the whole message. The two go back
   * as they came, or joined: both texts as one, with the status and the seal of this one, where it has one.
   */
  harmonia_continues?: boolean | null;
}

export interface MessageItem extends ItemBase {
  type: "message";
  role: "user" | "assistant" | "system" | "developer";
  content: string | (TextPart | FilePart)[];
  phase?: "commentary" | "final_answer" | null;
}

export interface ReasoningItem extends ItemBase {
  type: "reasoning";
  summary?: TextPart[];
  content?: TextPart[] | null;
  /** There where it is not reasoning, but text that was held back: the channel it was on. Only where reasoning is shown. */
  harmonia_channel?: string | null;
  /** A call that was not made, with what the model was told instead. Only where reasoning is shown. */
  harmonia_call?: { name: string; arguments: string; error: string } | null;
}

/** A sampling whose output was damaged and mended, or given up and asked for again. What was sampled is sealed; it is for the inspector alone. */
export interface SampledEntry {
  /** Codes of the faults. */
  faults: string[];
  /** The items that it led to, among those of the answer. */
  first_item: number;
  items: number;
  /** Not there where it is too long. */
  encrypted_content?: string | null;
  /** What was not met, where it was given up. */
  unmet?: string | null;
}

export interface FunctionCallItem extends ItemBase {
  type: "function_call";
  name: string;
  namespace?: string | null;
  call_id: string;
  arguments: string;
}

export interface FunctionOutputItem extends ItemBase {
  type: "function_call_output";
  call_id: string;
  output: string;
}

export interface McpCallItem extends ItemBase {
  type: "mcp_call";
  name: string;
  server_label: string;
  arguments: string;
  output?: string | null;
  error?: string | { message?: string; content?: { text?: string }[] } | null;
  approval_request_id?: string | null;
  /** True where a person answered in the place of the tool. */
  harmonia_by_hand?: boolean | null;
}

/** The tools of an MCP server that the request declares. Where the item is sent back, they are not listed again. */
export interface ListedToolsItem extends ItemBase {
  type: "mcp_list_tools";
  server_label: string;
  tools: JsonValue[];
}

export interface ApprovalRequestItem extends ItemBase {
  type: "mcp_approval_request";
  name: string;
  server_label: string;
  arguments: string;
}

/** `harmonia_arguments` runs the call with other arguments; `harmonia_output` answers in the place of the tool. */
export interface ApprovalResponseItem extends ItemBase {
  type: "mcp_approval_response";
  approval_request_id: string;
  approve: boolean;
  reason?: string | null;
  harmonia_arguments?: string | null;
  harmonia_output?: string | null;
}

export type Item =
  | MessageItem
  | ReasoningItem
  | FunctionCallItem
  | FunctionOutputItem
  | McpCallItem
  | ListedToolsItem
  | ApprovalRequestItem
  | ApprovalResponseItem;

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  input_tokens_details?: { cached_tokens?: number };
  /** Chats that an older page saved have the channels in here. */
  output_tokens_details?: { reasoning_tokens?: number; harmonia_channels?: Record<string, number> };
  /** What each channel cost, headers and stops included: `analysis`, `commentary`, `final`, `other`; calls are `calls`. */
  harmonia_channels?: Record<string, number>;
}

export interface ResponseResource {
  id: string;
  status: "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";
  model: string;
  output: Item[];
  error: { code?: string | null; message?: string | null } | null;
  incomplete_details: { reason?: string } | null;
  usage: Usage | null;
  warnings?: string[];
  /** Why it failed or is incomplete, more precisely than OpenAI's error codes and reasons can say. */
  harmonia_reason?: string;
  harmonia_sampled?: SampledEntry[];
}

/** An event of a stream. All others have a type that is none of these. */
export type StreamEvent =
  | { type: "response.created" | "response.in_progress"; response: ResponseResource }
  | { type: "response.completed" | "response.incomplete" | "response.failed"; response: ResponseResource }
  | { type: "response.output_item.added" | "response.output_item.done"; output_index: number; item: Item }
  | { type: "response.content_part.added" | "response.content_part.done"; output_index: number; content_index: number; part: TextPart }
  | { type: "response.output_text.delta"; output_index: number; content_index: number; delta: string }
  | { type: "response.output_text.done"; output_index: number; content_index: number; text: string }
  | { type: "response.reasoning_text.delta"; output_index: number; content_index: number; delta: string }
  | { type: "response.reasoning_text.done"; output_index: number; content_index: number; text: string }
  | { type: "response.function_call_arguments.delta" | "response.mcp_call_arguments.delta"; output_index: number; delta: string }
  | { type: "response.function_call_arguments.done" | "response.mcp_call_arguments.done"; output_index: number; arguments: string }
  | { type: "response.mcp_call.in_progress" | "response.mcp_call.completed" | "response.mcp_call.failed"; output_index: number }
  | { type: "response.mcp_list_tools.in_progress" | "response.mcp_list_tools.completed" | "response.mcp_list_tools.failed"; output_index: number }
  | { type: "error"; code?: string | null; message?: string | null; param?: string | null };

export type Effort = "low" | "medium" | "high";

/** The body of a request for a response, as far as the page sends it. */
export interface ResponseRequest {
  model?: string;
  input: Item[];
  instructions?: string;
  tools?: JsonValue[];
  tool_choice?: "auto" | "none" | "required";
  reasoning?: { effort: Effort };
  max_output_tokens?: number;
  temperature?: number;
  top_p?: number;
  include?: string[];
  store?: boolean;
  stream?: boolean;
  truncation?: "auto" | "disabled";
  /** Go on with the last item, which is an unfinished message or reasoning of the assistant. */
  harmonia_continue?: boolean;
  /** Who the model is, in the system message. */
  harmonia_identity?: string;
}
