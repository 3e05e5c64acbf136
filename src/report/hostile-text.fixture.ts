/** What a hostile or broken server could put into a reason, an id or a name; for the examples of this folder. */
export const HOSTILE =
  'a<b & "c" \'d\' | e\nf\u0000\u001b[31m ]]> `g` \ud800 \ufffe {x="1"} \\ <script>alert(1)</script> <img src=x onerror=y> \u202e';
