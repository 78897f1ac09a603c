-- The outcome of a send, if it is kept (lib/kept), and its birth, 0: unknown. nil: there is none, or that of another send.
--   ended, born: the rows of the id in `results`; since: what ended earlier is no longer kept
--   meant: the birth of the send; 0: the newest send of the id
--   here: the birth of the message that the queue has under the id, nil: none; waits: it is neither dead nor expired
-- needs: kept_birth
-- gives: own_end
local function own_end(ended, born, since, meant, here, waits)
  local at = ended and tonumber(ended:match('^%a+ (%d+) ') or nil)
  if not at or at <= since then
    return nil
  end
  local birth = kept_birth(ended, born)
  local asked = meant > 0 and meant or here or birth or 0
  -- An outcome without a birth is that of no message that still waits, and of none that was sent later.
  local may_be = asked <= at * 4096 + 4095 and (not here or here == asked and not waits)
  if birth == asked or not birth and may_be then
    return ended, birth or 0
  end
end
