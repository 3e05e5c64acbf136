/** Text for a terminal of 80 columns, broken at spaces. */
const COLUMNS = 80;

export const wrapped = (text: string): string[] => {
  const lines: string[] = [];
  for (const word of text.split(/ +/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= COLUMNS) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
};
