/** What an error of the file system means to somebody who named the place, and whether naming another one helps. */

const MEANS: Readonly<Record<string, string>> = {
  EACCES: "this user may not do that there",
  EPERM: "this user may not do that there",
  EROFS: "the file system there is read-only",
  ENOENT: "there is no such place",
  ENOTDIR: "a part of the path is a file, not a folder",
  EISDIR: "it is a folder",
  EEXIST: "something of that name is there already",
  ENAMETOOLONG: "the name is too long",
  ELOOP: "its links lead in a circle",
  ENXIO: "nothing can be kept there",
  EINVAL: "that is no place for it",
  ENOTSUP: "nothing can be kept there",
  ENODEV: "nothing can be kept there",
};

/** The place is right, and there is no room: nothing that was named wrongly. */
const NO_ROOM: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full",
  EDQUOT: "the quota of this user is used up",
  EFBIG: "a file may not grow any further here (ulimit -f)",
  EMFILE: "this process has as many files open as it may (ulimit -n)",
  ENFILE: "this machine has as many files open as it may",
  ENOMEM: "the memory is full",
  EIO: "the disk reports an error",
};

export type FileProblem = {
  code: string;
  /** A clause without a full stop, such as `the disk is full (ENOSPC)`. */
  sentence: string;
  /** False: the user named a place that cannot be used. True: the place would do, if there were room. */
  isLackOfRoom: boolean;
};

/** `null` for what is no error of the system. */
export const fileProblem = (error: unknown): FileProblem | null => {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  if (code === undefined) return null;
  const means = MEANS[code] ?? NO_ROOM[code];
  return means === undefined ? null : { code, sentence: `${means} (${code})`, isLackOfRoom: code in NO_ROOM };
};
