-- Records that the call is done (lib/noted), and how many messages it changed. Returns that count. `more`: the rest of the
-- call's reply.
-- gives: note_done
local function note_done(count, more)
  local note = (more or '') .. count
  -- needs: noted
  return noted and count
end
