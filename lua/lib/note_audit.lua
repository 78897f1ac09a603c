-- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
--   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
-- needs: keys: audit
-- gives: note_audit
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
end
