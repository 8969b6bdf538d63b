/** Small pictures for buttons. They say nothing to a screen reader: the button has a word. */

interface Props {
  /** The strokes, on a field of 20 by 20. */
  path: string;
}

function Icon({ path }: Props) {
  return (
    <svg class="icon" width="18" height="18" viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.5"
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      <path d={path} />
    </svg>
  );
}

export const CopyIcon = () => <Icon path="M7 7.5A1.5 1.5 0 0 1 8.5 6h6A1.5 1.5 0 0 1 16 7.5v7a1.5 1.5 0 0 1-1.5 1.5h-6A1.5 1.5 0 0 1 7 14.5zM13 6V5.5A1.5 1.5 0 0 0 11.5 4h-6A1.5 1.5 0 0 0 4 5.5v6A1.5 1.5 0 0 0 5.5 13H7" />;
export const CheckIcon = () => <Icon path="M4.5 10.5l4 4 7-8.5" />;
export const EditIcon = () => <Icon path="M4 16l.7-3.3 8.6-8.6a1.4 1.4 0 0 1 2 0l.6.6a1.4 1.4 0 0 1 0 2l-8.6 8.6zM12 5.5l2.5 2.5" />;
export const AgainIcon = () => <Icon path="M15.5 8A6 6 0 1 0 16 11.5M16 4v4h-4" />;
export const ContinueIcon = () => <Icon path="M5 4.5v11M8.5 5l7.5 5-7.5 5z" />;
export const InspectIcon = () => <Icon path="M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l3.5 3.5M7 9h4M9 7v4" />;
export const DeleteIcon = () => <Icon path="M4 6h12M8 6V4.5A.5.5 0 0 1 8.5 4h3a.5.5 0 0 1 .5.5V6M5.5 6l.7 9a1 1 0 0 0 1 1h5.6a1 1 0 0 0 1-1l.7-9M8.5 9v4M11.5 9v4" />;
export const BackIcon = () => <Icon path="M12 5l-5 5 5 5" />;
export const ForwardIcon = () => <Icon path="M8 5l5 5-5 5" />;
export const DownIcon = () => <Icon path="M10 4v12M5 11l5 5 5-5" />;
export const MoreIcon = () => <Icon path="M6 8l4 4 4-4" />;
export const SendIcon = () => <Icon path="M10 16V4.5M5 9.5l5-5 5 5" />;
export const StopIcon = () => <Icon path="M6 6h8v8H6z" />;
export const AttachIcon = () => <Icon path="M15.5 9.5l-5.6 5.6a3.5 3.5 0 0 1-5-5l6-6a2.3 2.3 0 0 1 3.3 3.3l-5.7 5.7a1.1 1.1 0 0 1-1.6-1.6l5-5" />;
export const FileIcon = () => <Icon path="M6 3.5h5l4 4v8a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1v-11a1 1 0 0 1 1-1zM11 3.5v4h4" />;
export const SettingsIcon = () => <Icon path="M3.5 6h7M14.5 6h2M3.5 14h2M9.5 14h7M12.5 4a2 2 0 1 1 0 4 2 2 0 0 1 0-4zM7.5 12a2 2 0 1 1 0 4 2 2 0 0 1 0-4z" />;
export const CloseIcon = () => <Icon path="M5 5l10 10M15 5L5 15" />;
export const ToolIcon = () => <Icon path="M12.5 3.5a4 4 0 0 0-3.8 5.2L3.8 13.6a1.7 1.7 0 0 0 2.5 2.5l5-4.9a4 4 0 0 0 5-5L13.9 8.5l-2.2-.6-.6-2.2 2.4-2.2z" />;
export const ThoughtIcon = () => <Icon path="M10 3.5a4.5 4.5 0 0 1 2.5 8.2V14h-5v-2.3A4.5 4.5 0 0 1 10 3.5zM8 16.5h4" />;
export const NoteIcon = () => <Icon path="M4 5h12v8.5H9L6 16v-2.5H4zM7 8h6M7 10.5h4" />;
export const WarningIcon = () => <Icon path="M10 4l7 12H3zM10 8.5v3.5M10 14v.1" />;
export const ListIcon = () => <Icon path="M4 5.500h12M4 10h12M4 14.500h12" />;
export const SearchIcon = () => <Icon path="M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l3.5 3.5" />;
export const AddIcon = () => <Icon path="M10 4.500v11M4.500 10h11" />;
export const SunIcon = () => <Icon path="M10 13a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM10 2.500v1.500M10 16v1.500M2.500 10H4M16 10h1.500M4.700 4.700l1 1M14.300 14.300l1 1M4.700 15.300l1-1M14.300 5.700l1-1" />;
export const MoonIcon = () => <Icon path="M16 11.500A6.500 6.500 0 1 1 8.500 4a5 5 0 0 0 7.500 7.500z" />;
export const HalfIcon = () => <Icon path="M10 3.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM10 3.500v13M12 5v10M14 6.500v7" />;
