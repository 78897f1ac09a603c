-- Records in the register of its sender (lib/done) that the call is done: `note` is the count, after the rest of the call's
-- reply. The last write of a script: if it is cut off before, a repetition does the rest. The note stays for an hour, far
-- longer than any call is repeated. Statements, as in lib/chosen.
-- needs: keys: sender; args: number; locals: note
-- gives: noted
local noted = number .. ' ' .. note
redis.call('PSETEX', sender, '3600000', noted)
